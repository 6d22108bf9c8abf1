"""Sessions: append-only logs of what an agent does."""

from dsh_core.session.entry import Entry
from dsh_core.session.lossless import DataError
from dsh_core.session.messages import derive_messages
from dsh_core.session.session import Session
from dsh_core.session.store import SessionStore

__all__ = ["DataError", "Entry", "Session", "SessionStore", "derive_messages"]
