"""What the tests of sessions share: real logs, ways to store and check them, a clock."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

import msgspec
import zstandard

from dsh_core.context import Context
from dsh_core.contract.checker import Checker
from dsh_core.contract.findings import Severity
from dsh_core.logs.reader import Batch, SessionLog
from dsh_core.logs.write import header_row
from dsh_core.session import Entry, SessionStore
from tests.paths import DECODED

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Sequence
    from pathlib import Path

    from dsh_core.events import SessionEvent, SessionHeader
    from dsh_core.session import Session

TIME: Final = 1_790_000_000_000
"""What the tests' clock says, in ms."""


def clock() -> int:
    return TIME


def run(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a program to its end."""
    asyncio.run(main())


def with_store(main: Callable[[Context, SessionStore], Coroutine[Any, Any, None]]) -> None:
    """Run a program that has a store of sessions, and end it."""

    async def program() -> None:
        ctx = Context()
        try:
            await main(ctx, SessionStore(ctx, clock=clock))
        finally:
            await ctx.dispose()

    asyncio.run(program())


def is_of_october(path: Path) -> bool:
    return b'"version":4' in path.read_bytes()[:200]


REAL: Final = sorted(path for path in DECODED.glob("*.jsonl") if is_of_october(path))
"""Logs that a runtime of generation 4 wrote."""


def rows_of(path: Path) -> tuple[SessionHeader, list[bytes]]:
    """Return a plain log's header and its other lines, without their newlines."""
    lines = path.read_bytes().splitlines()
    with path.open("rb") as source:
        header = SessionLog(source, str(path)).header
    return header, lines[1:]


def entries_of(rows: Iterable[bytes]) -> list[Entry]:
    return [msgspec.json.decode(row, type=Entry) for row in rows]


def violations(header: SessionHeader, log: Iterable[Entry]) -> list[str]:
    """Return what breaks the contract in a log."""
    checker = Checker(header, header_row=header_row(header), strict=True)
    found = [finding for entry in log for finding in checker.observe(entry.event)]
    found += checker.finish()
    return [
        f"{finding.rule} at {finding.seq}: {finding.message}"
        for finding in found
        if finding.severity is Severity.VIOLATION
    ]


def read_back(path: Path) -> list[SessionEvent]:
    """Return the events of a log in which nothing is wrong."""
    with path.open("rb") as source:
        items = list(SessionLog(source, str(path)).read())
    batches = [item for item in items if isinstance(item, Batch)]
    assert len(batches) == len(items), items
    return [event for batch in batches for event in batch.events]


def lines_of(path: Path) -> list[bytes]:
    """Return the lines of a log, plain or zstd."""
    data = path.read_bytes()
    if path.suffix != ".jsonl":
        reader = zstandard.ZstdDecompressor().stream_reader(data, read_across_frames=True)
        data = reader.read()
    assert not data or data.endswith(b"\n")
    return data.splitlines()


def equals_log(path: Path, session: Session) -> bool:
    """Whether a file holds exactly what a session has logged."""
    header, *rows = lines_of(path)
    assert msgspec.json.decode(header) == header_row(session.header)
    return rows == [entry.row for entry in session.events]


def message(text: str = "hi", **more: Any) -> dict[str, Any]:
    """Return a user's message."""
    content = [{"type": "text", "text": text}]
    return {"id": "u", "role": "user", "source": {"kind": "user"}, "content": content, **more}


def log(*events: tuple[Any, ...]) -> list[Entry]:
    """Return entries of (type, data) or (type, data, surface operation)."""
    return [
        Entry(kind, seq, TIME + seq, data, surface_op=op[0] if op else msgspec.UNSET)
        for seq, (kind, data, *op) in enumerate(events)
    ]


def types(entries: Sequence[Entry]) -> list[str]:
    return [entry.type for entry in entries]
