"""Shrinking a log with a finding to the least that still gives the same finding.

By delta debugging: parts of the log are left out as long as the finding stays, from whole turns to
single events, then parts of what is left. What remains is numbered anew.
"""

from dsh_core.shrink.judge import Question
from dsh_core.shrink.run import MAX_CHECKS, MAX_EVENTS, Shrunk, Stopped, shrink
from dsh_core.shrink.source import InMemory, NothingToShrinkError

__all__ = [
    "MAX_CHECKS",
    "MAX_EVENTS",
    "InMemory",
    "NothingToShrinkError",
    "Question",
    "Shrunk",
    "Stopped",
    "shrink",
]
