"""Rules of the ``session-title`` package: what a title was made of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

from dsh_core.contract.fields import fields, is_whole, shown
from dsh_core.contract.newest import Seqs
from dsh_core.contract.rule import LATER, Rule, RuleSet
from dsh_core.events import Contract

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dsh_core.contract.rule import Handler
    from dsh_core.contract.run import Run
    from dsh_core.events import SessionEvent, UnknownEvent, UserMessage

MAX_PROMPTS: Final = 2048
"""How many messages of the user are known as such."""

FRAME: Final = "dsh-session-title-llm"
"""Source of the message that asks a model for a title."""


class Rules(RuleSet):
    """A title cites the user's messages that it was made of, unless the user gave it."""

    owner = "session-title"
    rules: ClassVar = (
        Rule(
            "title.sources",
            "a title does not cite the user's messages that it was made of, and just those",
            "Cite earlier messages of the user, each once; none if the user gave the title.",
            on=("session/title", "session/title-llm-request"),
            contracts=LATER,
        ),
    )

    def __init__(self, run: Run) -> None:
        """Start with a fresh session."""
        super().__init__(run)
        self._prompts = Seqs(MAX_PROMPTS)

    def handlers(self) -> Mapping[str, Handler]:
        """Return what to call by event type."""
        if self.run.contract is Contract.V0:
            return {"session/title": self._title}
        return {
            "session/title": self._title,
            "session/title-llm-request": self._request,
            "user/message": self._message,
            "": self._unreadable,
        }

    def _message(self, event: UserMessage, _line: int) -> None:
        source = event.data.source
        # A message without a source is at fault itself, and may have been the user's.
        if (source is None or source.kind in ("user", "")) and not self.run.repeating:
            self._prompts.add(event.seq)

    def _unreadable(self, event: UnknownEvent, _line: int) -> None:
        # Its type could not be read: it may have been a message of the user.
        self._prompts.add(event.seq)

    def _title(self, event: SessionEvent, line: int) -> None:
        data = fields(event.data)
        cited, source = data.get("messageSeqs"), data.get("source")
        kind = source.get("kind") if isinstance(source, dict) else None
        if self.run.contract is Contract.V4 and not isinstance(source, dict):
            problem = f"source is {shown(source)}"
        elif kind == "user" and cited:
            problem = "the user gave the title, and yet messages are cited"
        elif kind != "user" and not cited:
            problem = "no messages are cited, and yet the user did not give the title"
        else:
            problem = ""
        self._judge(event, line, problem, cited)

    def _request(self, event: SessionEvent, line: int) -> None:
        data = fields(event.data)
        cited = data.get("messageSeqs")
        problem = "" if cited else "no messages are cited"
        if not problem and not _is_framed(data.get("messages")):
            problem = "the request is not one text of the title package"
        self._judge(event, line, problem, cited)

    def _judge(self, event: SessionEvent, line: int, problem: str, cited: object) -> None:
        if not problem and self.run.contract is Contract.V4:
            problem = self._cited_problem(event, cited)
        if problem and not self.run.explained(event, ("title", problem)):
            finding = self.trip("title.sources", problem, event, line)
            if cited:
                # The request for a title and the title itself cite the same.
                self.run.blame(finding, ("title", problem))

    def _cited_problem(self, event: SessionEvent, cited: object) -> str:
        if not isinstance(cited, list):
            return f"messageSeqs is {shown(cited)}"
        seen: set[float] = set()
        for seq in cited:
            if not is_whole(seq) or seq >= event.seq:
                return f"messageSeqs cites {shown(seq)}, which is not earlier"
            if seq in seen:
                return f"messageSeqs cites {shown(seq)} twice"
            if self._prompts.lacks(seq) and not self.run.unseen(event):
                return f"messageSeqs cites {shown(seq)}, which is no message of the user"
            seen.add(seq)
        return ""


def _is_framed(messages: Any) -> bool:  # noqa: ANN401 - any JSON value
    """Whether messages are the one that asks a model for a title."""
    if not isinstance(messages, list) or len(messages) != 1 or not isinstance(messages[0], dict):
        return False
    source, content = messages[0].get("source"), messages[0].get("content")
    return (
        messages[0].get("role") == "user"
        and isinstance(source, dict)
        and source.get("kind") == FRAME
        and isinstance(content, list)
        and len(content) == 1
        and isinstance(content[0], dict)
        and content[0].get("type") == "text"
    )
