"""Rules of the ``log``: envelopes, header row, order of the log as a whole."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from dsh_core.contract.fields import is_whole, shown
from dsh_core.contract.findings import Severity
from dsh_core.contract.rule import EVERY, LATER, Rule, RuleSet
from dsh_core.contract.run import LOST
from dsh_core.events import UNTYPED, Contract, SessionEvent, UnknownEvent
from dsh_core.parts import ABSENT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dsh_core.contract.rule import Handler
    from dsh_core.contract.run import Run
    from dsh_core.events import EndSeed, RequestHeader

V4 = (Contract.V4,)
FIRST_V2: Final = 2
"""How much of a wrong payload a message shows, in bytes."""

_REQUIRED: Final = {
    Contract.V0: {"version": int, "id": str, "createdAt": int, "delegationDepth": int},
    Contract.V4: {
        "version": int,
        "id": str,
        "createdAt": int,
        "isSeeded": bool,
        "delegationDepth": int,
    },
}
_OPTIONAL: Final = {"type", "cwd", "parentSession", "origin", "agentPreset"}
_RETIRED: Final = ("sandboxMode", "approvalPolicy")

_OBJECT: Final = ord("{")
"""How the JSON of an object begins."""


class Rules(RuleSet):
    """What makes a row of the log a proper row, whatever its type."""

    owner = "log"
    rules: ClassVar = (
        Rule(
            "seq.gap",
            "numbers are missing in the log",
            "Events were lost or removed: look for damage before this line.",
            on=(EVERY,),
            contracts=LATER,
            source="log",
        ),
        Rule(
            "envelope.invalid",
            "type, seq, time or data is missing, of a wrong kind, or not JSON (NaN, overflow)",
            "The writer must check events before it appends them.",
            on=(EVERY,),
        ),
        Rule(
            "envelope.ignorable",
            "`ignorable` is present but not true",
            "Leave it out, or write true.",
            on=(EVERY,),
            contracts=LATER,
        ),
        Rule(
            "event.unknown-required",
            "an event of an unknown type is not marked as ignorable",
            "dsh refuses such a session: set `ignorable: true`, or update this tool for a new dsh.",
            on=(EVERY,),
            contracts=LATER,
            severity=Severity.ADVICE,
        ),
        Rule(
            "time.regressed",
            "an event has an earlier time than the one before it",
            "The clock was set back; spans are clamped, never reordered.",
            on=(EVERY,),
            severity=Severity.ADVICE,
        ),
        Rule(
            "text.lone-surrogate",
            "half a character stands in a text",
            "A text was cut inside a character; U+FFFD stands for it on the way out.",
            on=(EVERY,),
            severity=Severity.ADVICE,
        ),
        Rule(
            "header.invalid",
            "the header row is not as its generation wants it",
            "The runtime refuses to open such a log.",
            on=(EVERY,),
            contracts=LATER,
            source="log",
        ),
        Rule(
            "seed.cut",
            "header and markers disagree on an inherited prefix",
            "A fork was written by hand or cut: aggregates will count inherited events twice.",
            on=(EVERY,),
            contracts=V4,
            source="log",
        ),
    )

    def __init__(self, run: Run) -> None:
        """Start with a fresh session."""
        super().__init__(run)
        self._header_due = run.contract is not Contract.SEED
        self._inherited = False
        self._unknown: dict[str, object] = {}

    def handlers(self) -> Mapping[str, Handler]:
        """Return what to call by event type."""
        found: dict[str, Handler] = dict.fromkeys(UNTYPED, self._untyped)
        if self.run.contract is not Contract.SEED:
            found |= {EVERY: self._any, "session/end-seed": self._end_seed}
        if self.run.contract is Contract.V4:
            found["request/header"] = self._request
        return found

    def _untyped(self, event: SessionEvent, line: int) -> None:
        # The decoder leaves the payload of these as it is, whatever it is.
        if memoryview(event.data)[0] != _OBJECT:
            problem = "data must be an object"
            self.run.report("envelope.invalid", problem, seq=event.seq, line=line)

    def _request(self, event: RequestHeader, line: int) -> None:
        config = event.data.header.config
        if not (config.provider and config.model):
            problem = "request/header names no provider or model"
            self.trip("envelope.invalid", problem, event, line)

    def _any(self, event: SessionEvent, line: int) -> None:
        run = self.run
        if self._header_due:
            self._check_header()
        if event.ignorable is not ABSENT and bytes(event.ignorable) != b"true":
            run.report(
                "envelope.ignorable",
                "ignorable is not true",
                seq=event.seq,
                line=line,
                expected="true or nothing",
            )
        if (
            isinstance(event, UnknownEvent)
            and event.ignorable is ABSENT
            and not run.explained(event, ("unknown", event.type))
        ):
            finding = run.report(
                "event.unknown-required",
                f"unknown type {shown(event.type)}",
                seq=event.seq,
                line=line,
            )
            # One type nobody knows is one cause, however often it occurs.
            run.blame_for_good(finding, ("unknown", event.type))

    def _check_header(self) -> None:
        self._header_due = False
        run = self.run
        problems = header_problems(run.header_row, run.contract, run.header.version)
        if not problems:
            return
        if run.head_damage is not None and not run.header_known:
            run.head_damage.fold(-1)
        else:
            run.report(
                "header.invalid",
                "; ".join(problems),
                seq=-1,
                line=run.header_line or 1,
                always=True,
            )

    def _end_seed(self, event: EndSeed, line: int) -> None:
        if not event.data.inherited:
            return
        self._inherited = True
        if self.run.header_known and not self.run.header.is_seeded and self._has_cut():
            self.run.report(
                "seed.cut",
                "an inherited prefix ends in a session that is not seeded",
                seq=event.seq,
                line=line,
                expected="isSeeded true in the header",
                got="false",
            )

    def _has_cut(self) -> bool:
        version = self.run.header.version
        return version is None or version >= FIRST_V2

    def finish(self, *, final: bool) -> None:
        """Judge what only the end of the input decides."""
        del final
        run = self.run
        if self._header_due:
            self._check_header()
        if run.header.is_seeded and self._has_cut() and not self._inherited and run.last_seq >= 0:
            lost = run.blamed(LOST)
            if lost is not None:
                # The marker, too.
                lost.fold(-1)
                return
            run.report(
                "seed.cut",
                "the session is seeded but no inherited prefix ends in it",
                seq=run.last_seq,
                line=run.last_line,
                expected="a session/end-seed with inherited true",
                got="none",
            )


def header_problems(
    row: Mapping[str, object] | None, contract: Contract, version: int | None
) -> list[str]:
    """Return what is wrong with a header row.

    Args:
        row: The row as logged, None if the log has none.
        contract: The contract that the log is held to.
        version: The log's generation, None for June.
    """
    if row is None:
        # A June log that is held to a later contract has no header, and that is no news.
        return [] if version is None else ["the header row is missing"]
    problems = []
    required = dict(_REQUIRED[contract])
    if contract is Contract.V0 and version is not None and version >= FIRST_V2:
        required["isSeeded"] = bool
    for name, kind in required.items():
        value = row.get(name)
        if value is None:
            problems.append(f"{name} is missing")
        elif not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            problems.append(f"{name} must be {_KINDS[kind]}")
    problems += _version_problems(row.get("version"), contract)
    if row.get("id") == "":
        problems.append("id is empty")
    cwd = row.get("cwd")
    if cwd is not None and not (isinstance(cwd, str) and _is_absolute(cwd)):
        problems.append("cwd must be an absolute path")
    if row.get("origin", "subagent") != "subagent":
        problems.append("origin must be subagent")
    if contract is Contract.V4:
        extra = set(row) - set(required) - _OPTIONAL
        if extra:
            problems.append(f"{len(extra)} unknown keys" if len(extra) > 1 else "an unknown key")
        problems += _october_problems(row)
    problems += [
        f"{name} is retired" for name in _RETIRED if name in row and contract is Contract.V0
    ]
    return problems


def _october_problems(row: Mapping[str, object]) -> list[str]:
    problems = [
        f"{name} must be a string"
        for name in ("cwd", "parentSession", "agentPreset")
        if name in row and not isinstance(row[name], str) and (name != "cwd" or row[name] is None)
    ]
    problems += [
        f"{name} must be a count"
        for name in ("createdAt", "delegationDepth")
        if type(row.get(name)) is int and not is_whole(row[name])
    ]
    return problems


def _version_problems(version: object, contract: Contract) -> list[str]:
    if contract is Contract.V4:
        wrong = version is not None and version != 4  # noqa: PLR2004 - the contract's own
        return ["version must be 4"] if wrong else []
    negative = isinstance(version, int) and version < 0
    return ["version must not be negative"] if negative else []


_KINDS: Final = {str: "a string", int: "an integer", bool: "true or false"}


def _is_absolute(path: str) -> bool:
    return path.startswith(("/", "\\\\")) or path[1:3] in (":\\", ":/")
