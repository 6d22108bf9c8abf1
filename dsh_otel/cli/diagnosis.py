"""The work behind ``dsh-otel doctor``."""

from __future__ import annotations

import logging
import os
import platform
import sys
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
import typer
from opentelemetry.sdk.trace.sampling import Decision

from dsh_core.contract.installed import examined_rules
from dsh_core.logs.find import NoLogError, default_home, find_logs
from dsh_otel.cli.formats.words import counted
from dsh_otel.cli.plain import printable
from dsh_otel.cli.settings import HEADERS, TIMEOUTS, passed_over
from dsh_otel.export.otlp import (
    OtlpSink,
    SettingError,
    check_endpoint,
    check_protocol,
    endpoint_of,
    shown,
)
from dsh_otel.export.sink import MissingExtraError
from dsh_otel.names import SCOPE, Span
from dsh_otel.replay import ReplaySpanProcessor, replay_provider

if TYPE_CHECKING:
    from collections.abc import Mapping

PATIENCE: Final = "5"
"""Seconds to wait for an answer unless the environment says otherwise."""

PACKAGES: Final = (
    "dsh-otel",
    "opentelemetry-sdk",
    "opentelemetry-exporter-otlp-proto-http",
    "opentelemetry-exporter-otlp-json-file",
)
_FIRST_SAMPLED: Final = 1 << 64
"""A trace id that every sampler by ratio takes, if it takes any."""

OK_STATUS: Final = range(200, 300)


@dataclass(slots=True)
class Report:
    """What an examination found.

    Attributes:
        python: Version of the interpreter.
        packages: Version by package, empty if it is not installed.
        home: The DSH home.
        logs: Number of logs in it.
        endpoint: Where traces would go.
        protocol: How.
        headers: Names of the headers that would be sent along.
        sampler: Sampler that the environment asks for.
        sdk_disabled: Whether the environment switches OpenTelemetry off.
        sent: Whether a span was sent.
        status: HTTP status of the answer, None if there was none.
        answer: The answer's body or the reason, short.
        trace_id: Trace id of the span that was sent.
        rules: The packages that bring rules, by owner.
        notices: What looks like a slip, and does no harm to telemetry.
        problems: What keeps telemetry from arriving, and what to do.
    """

    python: str = ""
    packages: dict[str, str] = field(default_factory=dict)
    home: str = ""
    logs: int = 0
    endpoint: str = ""
    protocol: str = ""
    headers: list[str] = field(default_factory=list)
    sampler: str = ""
    sdk_disabled: bool = False
    sent: bool = False
    status: int | None = None
    answer: str = ""
    trace_id: str = ""
    rules: dict[str, str] = field(default_factory=dict)
    notices: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    @property
    def healthy(self) -> bool:
        """Whether nothing stands in the way."""
        return not self.problems


def examine(*, send: bool) -> Report:
    """Look at the settings and, if wanted, try them.

    Args:
        send: Whether to send a span.
    """
    environ = os.environ
    report = Report(python=platform.python_version(), endpoint=shown(endpoint_of(environ)))
    report.packages = {name: _version(name) for name in PACKAGES}
    home = default_home(environ)
    report.home = str(home)
    try:
        report.logs = len(find_logs([report.home]))
    except NoLogError:
        report.logs = 0
    if environ.get("DSH_HOME") and not home.exists():
        report.notices.append(f"DSH_HOME names a folder that does not exist: {home}")
    report.notices += passed_over(environ)
    report.headers = _header_names(environ)
    report.sampler = environ.get("OTEL_TRACES_SAMPLER", "parentbased_always_on")
    report.sdk_disabled = environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
    if report.sdk_disabled:
        report.problems.append("OTEL_SDK_DISABLED=true: no span is made at all; unset it")
    elif _drops_all():
        problem = f"the sampler {report.sampler} drops every span: set OTEL_TRACES_SAMPLER"
        report.problems.append(problem)
    may_send = send and not report.problems
    # The plugin does not start with them.
    with redirect_stdout(sys.stderr):
        rules = examined_rules()
    report.problems += rules.broken
    report.notices += rules.doubtful
    report.rules = rules.working
    try:
        report.protocol = check_protocol(environ)
        check_endpoint(environ)
    except SettingError as error:
        report.problems.append(str(error))
        return report
    _try(report, send=may_send)
    return report


def _drops_all() -> bool:
    """Whether the sampler of the environment leaves every span out."""
    sampler = replay_provider().sampler
    result = sampler.should_sample(None, _FIRST_SAMPLED, Span.DOCTOR)
    return result.decision is not Decision.RECORD_AND_SAMPLE


def _try(report: Report, *, send: bool) -> None:
    # The exporter logs each try; here the answer itself is shown.
    logging.getLogger("opentelemetry").addHandler(logging.NullHandler())
    logging.getLogger("opentelemetry").propagate = False
    os.environ.setdefault(TIMEOUTS[0], PATIENCE)
    try:
        sink = OtlpSink()
    except MissingExtraError as error:
        report.problems.append(str(error))
        return
    if not send:
        return
    writer = ReplaySpanProcessor(sink.exporter)
    provider = replay_provider(writer)
    span = provider.get_tracer(SCOPE).start_span(Span.DOCTOR)
    report.trace_id = f"{span.get_span_context().trace_id:032x}"
    span.end()
    provider.shutdown()
    report.sent = span.is_recording() or span.get_span_context().trace_flags.sampled
    report.status, report.answer = sink.status, sink.answer
    if not report.sent:
        report.problems.append(f"the sampler {report.sampler} left the span out; try again")
    elif sink.status is None:
        report.problems.append(
            f"no answer from {sink.target}: is a receiver listening there? "
            "OTEL_EXPORTER_OTLP_ENDPOINT sets the address"
        )
    elif sink.status not in OK_STATUS:
        report.problems.append(_advice(sink.status, sink.target))
    elif writer.counts.lost or sink.report().refused:
        report.problems.append(sink.report().problem or "the receiver refused the span")


def _advice(status: int, target: str) -> str:
    if status in (401, 403):
        return f"{target} wants credentials: set OTEL_EXPORTER_OTLP_HEADERS"
    if status == 404:  # noqa: PLR2004 - not found
        return (
            f"{target} knows no such path: OTEL_EXPORTER_OTLP_ENDPOINT takes the base URL, "
            "to which /v1/traces is appended"
        )
    if status in (405, 415):
        return f"{target} is not an OTLP receiver for HTTP with protobuf; use its HTTP port (4318)"
    return f"{target} answers {status}"


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _header_names(environ: Mapping[str, str]) -> list[str]:
    pairs = ",".join(environ.get(name, "") for name in HEADERS).split(",")
    return sorted({pair.partition("=")[0].strip() for pair in pairs if "=" in pair})


def as_json(report: Report) -> str:
    """Return the report as one JSON document."""
    document = {"schema_version": 1, "healthy": report.healthy, **msgspec.to_builtins(report)}
    return msgspec.json.encode(document).decode()


def _home(report: Report) -> str:
    if Path(report.home).exists():
        return counted(report.logs, "log")
    return "there is no such folder"


def show(report: Report) -> None:
    """Print the report for people."""
    rows = [
        ("python", report.python),
        *((name, found or "not installed") for name, found in report.packages.items()),
        ("DSH home", f"{report.home} ({_home(report)})"),
        ("endpoint", report.endpoint),
        ("protocol", report.protocol or "not supported"),
        ("headers", ", ".join(report.headers) or "none"),
        ("sampler", report.sampler),
        *((f"rules of {owner}", package) for owner, package in report.rules.items()),
    ]
    if report.sent:
        answer = "no answer" if report.status is None else f"HTTP {report.status}"
        rows.append(("one span sent", f"{answer} {report.answer}".strip()))
        rows.append(("its trace id", report.trace_id))
    width = max(len(name) for name, _ in rows)
    for name, value in rows:
        typer.echo(f"{name:<{width}}  {printable(value)}")
    for notice in report.notices:
        typer.echo(f"notice: {printable(notice)}")
    for problem in report.problems:
        typer.echo(f"problem: {printable(problem)}")
    if report.healthy:
        typer.echo("all is well" if report.sent else "nothing stands in the way")
