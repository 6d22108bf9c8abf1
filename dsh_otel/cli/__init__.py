"""The command line, ``dsh-otel``.

Data goes to standard output, everything else to standard error. Commands import what they need when
they run, so that help and completion are quick.
"""
