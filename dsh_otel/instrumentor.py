"""`DshInstrumentor`: traces what a program runs with the Python SDK of dsh.

``opentelemetry-instrument python app.py`` finds it, or two lines do the same::

    from dsh_otel.instrumentor import DshInstrumentor

    DshInstrumentor().instrument()
"""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING, Any, Final

from dsh_core.extras import install_hint
from dsh_otel.disabled import DISABLED, telemetry_disabled

try:
    from opentelemetry.instrumentation.instrumentor import (  # type: ignore[attr-defined]
        BaseInstrumentor,  # it has no types
    )

    from dsh_otel.sources.sdk import SUPPORTED, SdkConfig, SdkSource, sdk_client
except ImportError as error:
    raise ImportError(f"{error}; to instrument programs: {install_hint('instrument')}") from error

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

_logger: Final = logging.getLogger("dsh_otel")
_UNUSED: Final = ("meter_provider", "logger_provider")
"""What every instrumentor is given."""


class DshInstrumentor(BaseInstrumentor):  # type: ignore[misc]  # as above
    """Traces every run of every client of `deepseek_harness`, from `instrument` to `uninstrument`.

    ``instrument`` takes the fields of `SdkConfig` by keyword.
    """

    _source: SdkSource | None = None

    def instrumentation_dependencies(self) -> Collection[str]:
        """Return which releases of the SDK are instrumented."""
        return (SUPPORTED,)

    @property
    def counts(self) -> Mapping[str, int]:
        """What did not go as usual, see `SdkSource.counts`; empty while nothing is instrumented."""
        return {} if self._source is None else self._source.counts

    def flush(self, timeout_s: float = 5.0) -> bool:
        """Wait until everything that was heard is placed; turns that are open stay open.

        Args:
            timeout_s: How long to wait at most, in seconds.

        Returns:
            Whether it is.
        """
        return self._source is None or self._source.flush(timeout_s)

    def _instrument(self, **kwargs: Any) -> None:  # noqa: ANN401 - fields of the settings
        config = SdkConfig(**{k: v for k, v in kwargs.items() if k not in _UNUSED})
        if telemetry_disabled(os.environ):
            _logger.warning("%s is set: dsh sessions are not traced", DISABLED)
            return
        try:
            client = sdk_client()
        except Exception as error:  # noqa: BLE001 - whatever the SDK does when it is imported
            _logger.error("dsh sessions are not traced: %s", error)  # noqa: TRY400 - it is one line
            return
        self._source = SdkSource(config)
        self._source.patch(client)

    def _uninstrument(self, **kwargs: Any) -> None:  # noqa: ANN401 - the base class has them
        del kwargs
        source, self._source = self._source, None
        if source is not None and not source.unpatch():
            _logger.warning("telemetry of dsh did not finish in time, spans are missing")
