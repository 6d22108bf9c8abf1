"""Rules of the ``reader``: what a reader of the bytes reports, never what an event says."""

from __future__ import annotations

from typing import ClassVar

from dsh_core.contract.findings import Severity
from dsh_core.contract.rule import EVERY, Rule, RuleSet


def _damage(id_: str, fault: str, advice: str) -> Rule:
    return Rule(id_, fault, advice, on=(EVERY,), severity=Severity.DAMAGE)


class Rules(RuleSet):
    """Bytes and lines that are damaged; reading goes on after them."""

    owner = "reader"
    rules: ClassVar = (
        _damage(
            "line.torn-tail",
            "the last line or frame is cut",
            "The writer died in mid-append, or is still at it: what is cut was never committed.",
        ),
        _damage(
            "line.welded",
            "two events share a line",
            "A newline got lost in an interrupted append; what can be read of both is read.",
        ),
        _damage(
            "line.nul",
            "NUL bytes stand in the log",
            "The machine lost power before an append reached the disk.",
        ),
        _damage(
            "line.control-char",
            "a raw control character stands inside a string",
            "The writer does not escape control characters: encode events as JSON.",
        ),
        _damage(
            "line.invalid-utf8",
            "a line is not UTF-8",
            "A character was cut, or text was written in another encoding; U+FFFD stands for it.",
        ),
        _damage(
            "line.too-long",
            "a line is too long to be read whole",
            "Store large content outside the log; only the event's head was read.",
        ),
        _damage(
            "line.too-deep",
            "a line is nested too deeply",
            "Look at what the tool returned; only the event's head was read.",
        ),
        _damage(
            "line.not-json",
            "a line is not JSON",
            "Something other than the writer wrote to the log, or an append was cut.",
        ),
        _damage(
            "line.frame-corrupt",
            "a zstd frame cannot be decompressed",
            "The disk or a copy damaged the file; reading went on at the next frame.",
        ),
        _damage(
            "line.row-malformed",
            "a packed row contradicts itself",
            "The writer of packed rows is broken; its members were read as far as they go.",
        ),
    )
