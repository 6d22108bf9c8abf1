"""Makes ``python -m dsh_otel`` the same as ``dsh-otel``."""

from dsh_otel.cli.app import main

if __name__ == "__main__":
    main()
