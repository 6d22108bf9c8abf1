"""Rules of the ``session`` package that only v4 has: what a developer message refers to."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any, ClassVar, Final

from dsh_core.contract.fields import is_filled, is_whole, plain, shown
from dsh_core.contract.headers import header_problem
from dsh_core.contract.newest import Seqs
from dsh_core.contract.rule import Rule, RuleSet
from dsh_core.events import Contract
from dsh_core.parts import ABSENT

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dsh_core.contract.rule import Handler
    from dsh_core.contract.run import Run
    from dsh_core.events import DeveloperMessage, RequestHeader
    from dsh_core.payloads import ToolDefinition

V4 = (Contract.V4,)
MAX_HEADERS: Final = 256
"""How many request headers are known as such."""

MAX_READ: Final = 3
"""Of how many headers the tools are known."""

MAX_TOOLS: Final = 128
"""How many tools of a header are known; of one with more, none is judged."""


class Rules(RuleSet):
    """A developer message adds tools that an earlier request header defines."""

    owner = "session"
    rules: ClassVar = (
        Rule(
            "developer.header",
            "a developer message adds a tool that no request header before it defines as it must",
            "Set headerSeq to an earlier request/header that defines each added tool once, with"
            " description and parameters; leave it out if none is added.",
            on=("developer/message", "request/header"),
            contracts=V4,
        ),
    )

    def __init__(self, run: Run) -> None:
        """Start with a fresh session."""
        super().__init__(run)
        self._headers = Seqs(MAX_HEADERS)
        # Hashes of the tools that a header defines, by its seq; None if they are not known.
        self._tools: dict[int, array[int] | None] = {}

    def handlers(self) -> Mapping[str, Handler]:
        """Return what to call by event type."""
        return {"request/header": self._header, "developer/message": self._message}

    def _header(self, event: RequestHeader, line: int) -> None:
        if self.run.repeating:
            return
        header = event.data.header
        problem = header_problem(event.data)
        if problem:
            self.trip("envelope.invalid", problem, event, line)
        tools = header.definitions()
        readable = self.run.cause is None or header.tools is not ABSENT
        self._headers.add(event.seq)
        self._tools[event.seq] = _defined(tools) if readable else None
        if len(self._tools) > MAX_READ:
            del self._tools[next(iter(self._tools))]
        deferred = (tool.defer_loading for tool in tools if tool.defer_loading is not ABSENT)
        if any(bytes(raw) != b"true" for raw in deferred):
            self.trip("developer.header", "deferLoading of a tool is not true", event, line)

    def _message(self, event: DeveloperMessage, line: int) -> None:
        message = event.data.message
        if message is None or self.run.repeating:
            # That is what `message.shape` says.
            return
        content = plain(message.content)
        # What is no list is named by `message.shape` too.
        problem = self._problem(event, content) if isinstance(content, list) else ""
        if problem:
            self.trip("developer.header", problem, event, line)

    def _problem(self, event: DeveloperMessage, content: Sequence[Any]) -> str:
        changes = [block for block in content if isinstance(block, dict) and _kind(block)]
        added = [block for block in changes if _kind(block) == "addition"]
        if not all(is_filled(block.get("toolName")) for block in changes):
            return "a tool is added or removed without a name"
        if any("tool" in block for block in added):
            return "an added tool brings its definition along"
        if added:
            return self._added_problem(event, [block["toolName"] for block in added])
        return "" if event.data.header_seq is ABSENT else "headerSeq without added tools"

    def _added_problem(self, event: DeveloperMessage, names: Sequence[str]) -> str:
        seq = plain(event.data.header_seq)
        if not is_whole(seq) or seq >= event.seq:
            return f"headerSeq is {shown(seq)}, which is not earlier"
        if seq not in self._headers:
            wrong = self._headers.lacks(seq) and not self.run.unseen(event)
            return f"headerSeq is {shown(seq)}, which is no request/header" if wrong else ""
        tools = self._tools.get(int(seq))
        odd = next((name for name in names if tools is not None and hash(name) not in tools), None)
        if odd is None:
            return ""
        return f"{shown(odd)} is not just one complete tool of request/header {shown(seq)}"


def _kind(block: Mapping[str, Any]) -> str:
    """Return how a block changes the tools, nothing if it does not."""
    return {"tool-addition": "addition", "tool-removal": "removal"}.get(str(block.get("type")), "")


def _defined(tools: Sequence[ToolDefinition]) -> array[int] | None:
    """Return the hashes of the tools that are defined once, and completely."""
    if len(tools) > MAX_TOOLS:
        return None
    names = [tool.name for tool in tools]
    good = (tool.name for tool in tools if tool.complete and names.count(tool.name) == 1)
    return array("q", map(hash, good))
