"""What crash and fork repair write for a tool call that never started, as v4 wants it exactly."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from dsh_core.contract.fields import plain
from dsh_core.events import MAX_SAFE_INTEGER
from dsh_core.parts import ABSENT

if TYPE_CHECKING:
    from dsh_core.events import ToolResult

NOT_STARTED: Final = ("ToolNotStartedError", "TOOL_NOT_STARTED")
"""Class name and code of the error."""

NOT_STARTED_TEXT: Final = (
    "The tool call was interrupted before the Harness recorded it as started. "
    "Retry it if it is still needed."
)
"""Part of the format: the runtime takes a log with any other text in this place for corrupt."""

INTERRUPTED_PREFIX: Final = "interrupted-tool-result-"
FORKED_PREFIX: Final = "forked-tool-result-"
_COUNT: Final = re.compile(r"0|[1-9][0-9]{0,15}")


def is_repair(event: ToolResult, call_id: str) -> bool:
    """Whether a result is what crash or fork repair writes for a call that never started.

    A message id is made of a prefix, the call's id and a number; of a fork the number is the
    event's own, of a crash any. The text of a crash is fixed.
    """
    data = event.data
    error, message = data.error, data.message
    if (
        error is None
        or message is None
        or (error.name, error.code) != NOT_STARTED
        or not data.failed
        or event.source_event_seqs is not ABSENT
    ):
        return False
    text = _only_text(plain(message.content))
    number = message.id.removeprefix(f"{INTERRUPTED_PREFIX}{call_id}-")
    if number != message.id:
        counts = _COUNT.fullmatch(number) is not None and int(number) <= MAX_SAFE_INTEGER
        return counts and text == NOT_STARTED_TEXT
    return message.id == f"{FORKED_PREFIX}{call_id}-{event.seq}" and text is not None


def is_odd_fork_repair(event: ToolResult) -> bool:
    """Whether a result calls itself the repair of a fork and is not one."""
    data = event.data
    claims = (
        data.error is not None
        and data.error.code == NOT_STARTED[1]
        and data.message is not None
        and data.message.id.startswith(FORKED_PREFIX)
    )
    return claims and event.appends and not is_repair(event, data.call_id)


def _only_text(content: Any) -> str | None:  # noqa: ANN401 - any JSON value
    """Return the text of content that is one text block, None of any other."""
    block = content[0] if isinstance(content, list) and len(content) == 1 else None
    if not isinstance(block, dict) or block.get("type") != "text":
        return None
    text = block.get("text")
    return text if isinstance(text, str) else None
