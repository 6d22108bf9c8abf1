"""Waiting until something happens to the logs below a folder.

Where `watchfiles` is installed the system tells what has changed; everything is still looked at now
and then, since a system may have too much to tell. Without it everything is looked at all the time.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any, Final, Protocol

if TYPE_CHECKING:
    import threading
    from collections.abc import Iterator

POLL_S: Final = 1.0
"""How often everything is looked at where nobody tells, in seconds."""

LOOK_S: Final = 10.0
"""How often everything is looked at where the system tells what has changed, in seconds."""

_STEP_MS: Final = 20
_GATHER_MS: Final = 100
_TIMEOUT_MS: Final = 200


class Watch(Protocol):
    """Waits for changes.

    Attributes:
        how: How it learns of them, for people.
    """

    how: str

    def wait(self) -> set[str] | None:
        """Wait a little.

        Returns:
            Where something has happened, which may be nowhere; None if everything may have changed.
        """


class Poll:
    """Has everything looked at, again and again.

    Args:
        interval_s: How long to wait in between, in seconds.
        stop: Ends the wait.
    """

    def __init__(self, interval_s: float, stop: threading.Event) -> None:
        self.how = f"looking every {interval_s:g} s"
        self._interval_s = interval_s
        self._stop = stop

    def wait(self) -> set[str] | None:
        """Wait for the interval."""
        self._stop.wait(self._interval_s)
        return None


class Notified:
    """Learns from the system where something has happened.

    Args:
        root: A folder that exists.
        stop: Ends the wait.
        watch: `watchfiles.watch`.

    Raises:
        OSError: The system does not tell: it has no such service, or no room for more.
    """

    def __init__(self, root: str, stop: threading.Event, watch: Any) -> None:  # noqa: ANN401 - untyped when not installed
        self.how = "told by the system"
        self._changes: Iterator[set[tuple[Any, str]]] = watch(
            root,
            watch_filter=None,
            stop_event=stop,
            step=_STEP_MS,
            debounce=_GATHER_MS,
            rust_timeout=_TIMEOUT_MS,
            yield_on_timeout=True,
            raise_interrupt=False,
            ignore_permission_denied=True,
        )
        self._stop = stop
        # What happens from the first call on is told.
        self._first: set[str] | None = {path for _, path in next(self._changes, set())}
        self._looked = time.monotonic()

    def wait(self) -> set[str] | None:
        """Wait until something happens, or a fraction of a second."""
        now = time.monotonic()
        if now - self._looked >= LOOK_S:
            self._looked = now
            return None
        if self._first is not None:
            first, self._first = self._first, None
            return first
        changes = next(self._changes, None)
        if changes is None:
            # A signal has ended it; whoever got that may go on all the same.
            self._stop.wait(_TIMEOUT_MS / 1000)
            return None
        return {path for _, path in changes}


def watch_logs(root: str, stop: threading.Event, *, poll_s: float | None = None) -> Watch:
    """Return the best way to learn what happens.

    Args:
        root: A folder or log; what is not there yet is looked for.
        stop: Ends a wait.
        poll_s: Look at everything so often instead, in seconds.
    """
    if poll_s is None and os.path.isdir(root):  # noqa: PTH112 - as given
        try:
            from watchfiles import watch  # noqa: PLC0415 - an extra

            return Notified(root, stop, watch)
        except (ImportError, OSError, RuntimeError):
            pass  # where the system does not tell, we look
    return Poll(POLL_S if poll_s is None else poll_s, stop)
