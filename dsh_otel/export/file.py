"""OTLP JSON lines in a file, as the OpenTelemetry Collector's file receiver reads them."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import IO, TYPE_CHECKING, TypeVar

from dsh_otel.export.sink import MissingExtraError, SinkReport

if TYPE_CHECKING:
    from collections.abc import Callable

    from opentelemetry.sdk.trace.export import SpanExporter

STDOUT = "-"
T = TypeVar("T")


class _Watched:
    """A text stream that remembers why a write failed; the exporter only says that it did.

    Args:
        stream: The stream.
        replace: Whether what is in the file goes away when something is written.
    """

    def __init__(self, stream: IO[str], *, replace: bool) -> None:
        self._stream = stream
        self._replace = replace
        self.written = False
        self.problem = ""
        self.pipe_closed = False

    @property
    def closed(self) -> bool:
        return self._stream.closed

    def write(self, text: str) -> int:
        return self._watch(lambda: self._write(text))

    def flush(self) -> None:
        self._watch(self._stream.flush)

    def close(self) -> None:
        self._watch(self._stream.close)

    def _write(self, text: str) -> int:
        if self._replace and not self.written:
            self._stream.truncate(0)
        self.written = True
        return self._stream.write(text)

    def _watch(self, action: Callable[[], T]) -> T:
        try:
            return action()
        except OSError as error:
            self.problem = error.strerror or str(error)
            self.pipe_closed = isinstance(error, BrokenPipeError)
            raise


class FileSink:
    """Writes OTLP JSON lines.

    A file that exists keeps what it holds until the first spans come.

    Args:
        path: The file, replaced if it exists; ``-`` for standard output.
        append: Whether to go on at the end of the file instead.

    Attributes:
        hopeless: Never: there may be room again.

    Raises:
        MissingExtraError: The file exporter is not installed.
        OSError: The file cannot be written.
    """

    hopeless = False

    def __init__(self, path: str, *, append: bool = False) -> None:
        try:
            from opentelemetry.exporter.otlp.json.file.trace_exporter import (  # noqa: PLC0415
                FileSpanExporter,
            )
        except ImportError:
            what = "writing an OTLP file"
            raise MissingExtraError(what) from None
        self._own = path != STDOUT
        self.target = path if self._own else "standard output"
        self._new = self._own and not Path(path).exists()
        stream = Path(path).open("a", encoding="utf-8") if self._own else sys.stdout  # noqa: SIM115
        replace = self._own and not append and Path(path).is_file()
        self._stream = _Watched(stream, replace=replace)
        self._exporter = FileSpanExporter(stream=self._stream)  # type: ignore[call-overload]

    @property
    def exporter(self) -> SpanExporter:
        """The exporter that writes the file."""
        exporter: SpanExporter = self._exporter
        return exporter

    @property
    def problem(self) -> str:
        """Why writing failed, if it did."""
        return self._stream.problem

    def report(self) -> SinkReport:
        """Return why writing failed, if it did; close the file."""
        if self._own and not self._stream.closed:
            # The stream has noted why.
            with contextlib.suppress(OSError):
                self._stream.close()
            if self._new and not self._stream.written:
                with contextlib.suppress(OSError):
                    Path(self.target).unlink()
        return SinkReport(problem=self._stream.problem, pipe_closed=self._stream.pipe_closed)
