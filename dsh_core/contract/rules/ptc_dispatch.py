"""Rules of the ``tools`` package about calls that a tool makes: nested dispatch.

A dispatch outside any turn is one fault that two rules are about. In v4 the session's
`event.outside-turn` reports it, as whatever else lies outside. `tools.dispatch-outside-turn`, the
package's own rule, reports what that one does not: up to v3, and where it is filtered out.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any, ClassVar, Final

import msgspec
from msgspec import Raw, Struct

from dsh_core.contract.fields import fingerprint, is_filled, shown
from dsh_core.contract.rule import LATER, Rule, RuleSet
from dsh_core.events import Contract
from dsh_core.parts import ABSENT

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from dsh_core.contract.findings import Finding
    from dsh_core.contract.rule import Handler
    from dsh_core.contract.run import Run
    from dsh_core.events import SessionEvent

MAX_FOLLOWED: Final = 192
"""How many nested calls are remembered, the newest."""

STARTS: Final = ("tool/code-dispatch-start", "tool/ptc-dispatch-start")
SETTLES: Final = ("tool/code-dispatch", "tool/ptc-dispatch")
SETTLED: Final = 0
"""Stands for the fingerprint of a call that is settled."""


class Rules(RuleSet):
    """Each nested call names the call at its root and the one it is made by, and settles once."""

    owner = "tools"
    rules: ClassVar = (
        Rule(
            "tools.dispatch-ids",
            "a nested call lacks its own id, its parent's or its root's",
            "Set rootCallId, parentCallId and subCallId; the root is its own children's parent.",
            on=(*STARTS, *SETTLES),
            contracts=LATER,
        ),
        Rule(
            "tools.dispatch-root",
            "a nested call changes its root, or its parent is no call under the same root",
            "Hand the rootCallId of the outermost call through to all calls below it.",
            on=(*STARTS, *SETTLES),
            contracts=LATER,
        ),
        Rule(
            "tools.dispatch-outside-turn",
            "a nested call starts or settles outside any turn",
            "Wait for nested calls before the turn ends, or settle them as failed.",
            on=(*STARTS, *SETTLES),
            contracts=LATER,
        ),
        Rule(
            "tools.dispatch-unpaired",
            "a nested call settles without a start, twice or as another call, or starts twice",
            "Log one start and at most one settlement of each subCallId, with the same fields.",
            on=(*STARTS, *SETTLES),
            contracts=LATER,
        ),
    )

    def __init__(self, run: Run) -> None:
        """Start with a fresh session."""
        super().__init__(run)
        self._v4 = run.contract is Contract.V4
        self._known = _Known()

    def handlers(self) -> Mapping[str, Handler]:
        """Return what to call by event type."""
        if self.run.contract is Contract.SEED:
            return {}
        # Code dispatch is what it was called until v2.
        first = 1 if self._v4 else 0
        return dict.fromkeys(STARTS[first:], self._start) | dict.fromkeys(
            SETTLES[first:], self._settle
        )

    def _read(self, event: SessionEvent, line: int) -> _Dispatch | None:
        """Return what an event says of a call; None if nothing can be said of it."""
        if self.run.repeating:
            return None
        try:
            data = _decode(event.data)
        except (msgspec.MsgspecError, RecursionError):
            # It is no object, which is a finding of its own. It may have been any call.
            self._known.dropped = True
            return None
        named = {
            "subCallId": data.sub_call_id,
            "rootCallId": data.root_call_id,
            "parentCallId": data.parent_call_id,
        }
        wrong = [name for name, value in named.items() if self._is_empty(value)]
        if wrong:
            problem = f"{wrong[0]} is empty"
            self._report("tools.dispatch-ids", problem, event, line, data, _key(data.sub_call_id))
        if all(is_filled(value) for value in named.values()):
            return data
        if not wrong or self.run.cause is not None:
            # Until v3 nobody asked whether ids are there; what is read in part lacks anything.
            self._known.dropped = True
        return None

    def _is_empty(self, value: object) -> bool:
        return not is_filled(value) if self._v4 else value == ""

    def _report(
        self,
        rule: str,
        problem: str,
        event: SessionEvent,
        line: int,
        data: _Dispatch,
        *keys: Hashable,
    ) -> None:
        """Report a fault, unless something else is blamed for it; blame it for what follows."""
        run = self.run
        finding: Finding | None = run.explained(event, *keys)
        if finding is None:
            finding = self.trip(rule, problem, event, line)
        run.blame(finding, _key(data.sub_call_id))
        if is_filled(data.sub_call_id):
            # It may settle much later.
            run.blame_for_good(finding, _key(data.sub_call_id))
        if rule == "tools.dispatch-root":
            # The parent's start may be missing.
            run.blame(finding, _key(data.parent_call_id))

    def _root_problem(self, event: SessionEvent, data: _Dispatch, at: int | None) -> str:
        """Say what is wrong with the call's place below its root."""
        known, root = self._known, hash(data.root_call_id)
        if at is not None and known.roots[at] != root:
            return f"{shown(data.sub_call_id)} is a call below another root"
        if data.parent_call_id == data.root_call_id:
            return ""
        above = known.place(data.parent_call_id)
        if above is None:
            right = known.dropped or self.run.unseen(event)
        else:
            right = known.roots[above] == root
        return "" if right else f"the parent of {shown(data.sub_call_id)} is no call below its root"

    def _judge(
        self, event: SessionEvent, line: int, data: _Dispatch, at: int | None, unpaired: str
    ) -> None:
        """Judge where a call stands, below its root and in the log, and whether it has its pair."""
        run, keys = self.run, [_key(data.sub_call_id)]
        if at is None:
            # It may have started without a name.
            keys.append(_key(None))
        problem = self._root_problem(event, data, at)
        if problem:
            keys.append(_key(data.parent_call_id))
            self._report("tools.dispatch-root", problem, event, line, data, *keys)
            return
        if run.timeline.turn is None and not (self._v4 and run.enabled("event.outside-turn")):
            outside = "tools.dispatch-outside-turn"
            if not run.explained(event, "outside-turn"):
                finding = self.trip(outside, f"{event.type} outside any turn", event, line)
                run.blame(finding, "outside-turn")
        if unpaired:
            self._report("tools.dispatch-unpaired", unpaired, event, line, data, *keys)

    def _start(self, event: SessionEvent, line: int) -> None:
        data = self._read(event, line)
        if data is None:
            return
        at = self._known.place(data.sub_call_id)
        # Call ids are unique in their step only, and until v3 sub-ids were made from them.
        again = self._v4 and at is not None
        problem = f"{shown(data.sub_call_id)} starts again" if again else ""
        self._judge(event, line, data, at, problem)
        self._known.put(at, data, data.fingerprint if self._v4 else SETTLED + 1)

    def _settle(self, event: SessionEvent, line: int) -> None:
        data = self._read(event, line)
        if data is None:
            return
        at, name, problem = self._known.place(data.sub_call_id), shown(data.sub_call_id), ""
        if at is None:
            if not self._known.dropped and not self.run.unseen(event):
                problem = f"{name} settles without a start"
        elif self._known.fingerprints[at] == SETTLED:
            problem = f"{name} settles again"
        elif self._v4 and self._known.fingerprints[at] != data.fingerprint:
            problem = f"{name} settles with another parent, name or arguments than it started with"
        self._judge(event, line, data, at, problem)
        if at is not None:
            # A call is known from its start on.
            self._known.put(at, data, SETTLED)


class _Dispatch(Struct, rename="camel"):
    """What is read of a payload."""

    root_call_id: Any = None
    parent_call_id: Any = None
    sub_call_id: Any = None
    name: Raw = ABSENT
    arguments: Raw = ABSENT

    @property
    def fingerprint(self) -> int:
        """Stands for what a settlement repeats, by value."""
        parts = (self.parent_call_id, fingerprint(self.name, self.arguments))
        return hash(parts) or SETTLED + 1


_decode: Final = msgspec.json.Decoder(_Dispatch).decode


class _Known:
    """The newest nested calls; arrays keep them small, with an item for each call.

    Attributes:
        roots: Hashes of their roots.
        fingerprints: What their settlements repeat, `SETTLED` if they have come.
        dropped: Whether calls may be missing: they are not remembered any more, or had no name.
    """

    def __init__(self) -> None:
        self._ids = array("q")
        self.roots = array("q")
        self.fingerprints = array("q")
        self.dropped = False

    def place(self, id_: object) -> int | None:
        """Return where a call stands in the arrays, None if it is not known."""
        try:
            return self._ids.index(hash(id_))
        except ValueError:
            return None

    def put(self, at: int | None, data: _Dispatch, fingerprint: int) -> None:
        """Take in what is known of a call now, at its place if it has one."""
        root = hash(data.root_call_id)
        if at is not None:
            self.roots[at], self.fingerprints[at] = root, fingerprint
            return
        self._ids.append(hash(data.sub_call_id))
        self.roots.append(root)
        self.fingerprints.append(fingerprint)
        if len(self._ids) > MAX_FOLLOWED:
            del self._ids[0], self.roots[0], self.fingerprints[0]
            self.dropped = True


def _key(id_: object) -> Hashable:
    return ("dispatch", hash(id_) if is_filled(id_) else None)
