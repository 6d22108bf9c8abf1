"""The Python SDK of dsh (`deepseek_harness`) as a source: what its clients are told is traced.

Every client, however it is used, hears of all sessions of its runtime, children included. A filter
that lets nothing through listens there; the program gets what it got before.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib
import logging
import os
import time
from collections import Counter
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal
from weakref import WeakKeyDictionary, ref

import wrapt
from opentelemetry import trace
from pydantic import BaseModel, ConfigDict, Field, field_validator

from dsh_core.events import Contract
from dsh_otel.processors.base import SessionSpanProcessor
from dsh_otel.sources.sessions import LINGER_S, MAX_SESSIONS, Sessions, Settings
from dsh_otel.sources.told import Answered, Asked, Ended, Item, Process, notified
from dsh_otel.sources.worker import MAX_QUEUED, Worker

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from opentelemetry.trace import SpanContext, TracerProvider

DISTRIBUTION: Final = "deepseek-harness-sdk"
SUPPORTED: Final = f"{DISTRIBUTION} >= 0.1.1rc1, < 0.3"
"""The releases whose notifications are understood."""

MODULE: Final = "deepseek_harness.client"
CLIENT: Final = "HarnessClient"
PATCHED: Final = ("start", "close", "session_prompt")
NEEDED: Final = (*PATCHED, "subscribe_notifications")
FORMATS: Final = ((0, 2), 4), ((0, 1, 5), 3), ((0,), 0)
"""From which release on the runtime writes which generation."""

MAX_LAYERS: Final = 32
"""Among so many wrappers of others, ours is looked for."""

_logger: Final = logging.getLogger("dsh_otel")


class SdkConfig(BaseModel):
    """What is traced, and where it goes.

    Attributes:
        tracer_provider: Where spans go; the global provider by default.
        processors: Session span processors instead of those for errors and for the contract,
            besides those of the provider.
        contract: What sessions are held to; the contract of their generation by default.
        content: Whether prompts, answers, arguments and results are exported.
        redact: Sees every name and value that leaves, see `Privacy`.
        parent: What becomes of the span that is current where the program asks for a run: the turns
            of the run ``link`` to it, or it is their ``parent``.
        home: The DSH home with the durable logs; the one that the client uses by default.
        wait_s: How long what is missing in the notifications is waited for, in seconds.
        linger_s: How long a session whose client was closed is kept for one that goes on with it,
            in seconds; what a crash left open ends then.
        exit_s: How long the end of the program may be put off, in seconds.
        max_sessions: Most sessions that are followed at a time.
        max_queued: Most notifications that wait to be worked off.
    """

    model_config = ConfigDict(extra="forbid", arbitrary_types_allowed=True)

    tracer_provider: Any = None
    processors: tuple[SessionSpanProcessor, ...] | None = None
    contract: Contract | None = None
    content: bool = False
    redact: Any = None
    parent: Literal["link", "parent"] = "link"
    home: Path | None = None
    wait_s: float = Field(default=2.0, ge=0, le=60)
    linger_s: float = Field(default=LINGER_S, ge=0)
    exit_s: float = Field(default=5.0, ge=0, le=600)
    max_sessions: int = Field(default=MAX_SESSIONS, ge=2)
    max_queued: int = Field(default=MAX_QUEUED, ge=1)

    @field_validator("tracer_provider")
    @classmethod
    def _is_provider(cls, value: object) -> object:
        if value is not None and not callable(getattr(value, "get_tracer", None)):
            raise ValueError("must be an OpenTelemetry TracerProvider")
        return value

    @field_validator("redact")
    @classmethod
    def _is_callable(cls, value: object) -> object:
        if value is not None and not callable(value):
            raise ValueError("must be a function of name and value")
        return value


class UnknownSdkError(ImportError):
    """The SDK is not as this release knows it."""


def sdk_client() -> type:
    """Return the class of the SDK whose objects are listened to.

    Raises:
        ImportError: There is no SDK.
        UnknownSdkError: It is not as this release knows it.
    """
    client = getattr(importlib.import_module(MODULE), CLIENT, None)
    own = vars(client) if isinstance(client, type) else {}
    missing = [f"{CLIENT}.{name}" for name in NEEDED if not callable(own.get(name))]
    if not isinstance(client, type) or missing:
        release = _installed() or "of an unknown version"
        raise UnknownSdkError(
            f"{DISTRIBUTION} {release} lacks {', '.join(missing)}, which sessions are traced by; "
            f"supported: {SUPPORTED}"
        )
    return client


class SdkSource:
    """Traces the sessions of all clients, from `patch` to `unpatch`.

    Args:
        config: What is traced, and where it goes.

    Attributes:
        patched: Whether it is at work.
    """

    def __init__(self, config: SdkConfig) -> None:
        self._config = config
        settings = Settings(
            provider=self._provider,
            processors=config.processors,
            contract=config.contract,
            content=config.content,
            redact=config.redact,
            as_parent=config.parent == "parent",
            wait_s=config.wait_s,
            linger_s=config.linger_s,
            lossy=lambda: self._worker.dropped > 0,
        )
        self.patched = False
        self._worker: Worker[Item] = Worker(
            lambda: Sessions(settings, time.monotonic, config.max_sessions),
            max_queued=config.max_queued,
        )
        self._taps: WeakKeyDictionary[object, _Tap] = WeakKeyDictionary()
        self._wrapped: list[tuple[type, str, Any]] = []
        self._errors = self._refused = 0
        self._warned = False

    @property
    def counts(self) -> Mapping[str, int]:
        """What did not go as usual.

        Notifications that were ``dropped`` for lack of room, events ``filled`` in from logs and
        those that stay ``missing``, sessions ``forgotten`` because there were too many, ``errors``.
        """
        found = Counter(getattr(self._worker.work, "counts", {}))
        found["dropped"] = self._worker.dropped
        found["errors"] = self._worker.errors + self._errors
        return found

    def patch(self, client: type) -> None:
        """Begin to listen.

        Args:
            client: The class whose objects are listened to.
        """
        self.patched = True
        ways = {"start": self._start, "close": self._close, "session_prompt": self._prompt}
        for name in PATCHED:
            wrapper = wrapt.FunctionWrapper(vars(client)[name], ways[name])
            setattr(client, name, wrapper)
            self._wrapped.append((client, name, wrapper))

    def unpatch(self) -> bool:
        """Stop listening, and trace what was heard; nothing of it is left in the SDK.

        Returns:
            Whether everything was traced within the time there is.
        """
        self.patched = False
        for client, name, wrapper in self._wrapped:
            _restore(client, name, wrapper)
        self._wrapped.clear()
        for tap in list(self._taps.values()):
            self._safely(tap.close)
        self._taps.clear()
        atexit.unregister(self._at_exit)
        return self._worker.close(self._config.exit_s)

    def flush(self, timeout_s: float) -> bool:
        """Wait until everything that was heard is placed; turns that are open stay open.

        Args:
            timeout_s: How long to wait at most, in seconds.

        Returns:
            Whether it is.
        """
        return self._worker.flush(timeout_s)

    def _at_exit(self) -> None:
        self._worker.close(self._config.exit_s)

    # What the SDK's methods do besides

    def _start(self, wrapped: Callable[..., Any], instance: Any, args: Any, kwargs: Any) -> object:  # noqa: ANN401 - any call
        self._safely(lambda: self._listen(instance))
        return wrapped(*args, **kwargs)

    def _close(self, wrapped: Callable[..., Any], instance: Any, args: Any, kwargs: Any) -> object:  # noqa: ANN401 - any call
        try:
            return wrapped(*args, **kwargs)
        finally:
            self._safely(lambda: self._end(instance))

    def _prompt(self, wrapped: Callable[..., Any], instance: Any, args: Any, kwargs: Any) -> object:  # noqa: ANN401 - any call
        answer = self._safely(lambda: self._ask(instance, *args[:1], **kwargs))
        message_id = None
        try:
            message_id = wrapped(*args, **kwargs)
        finally:
            if answer is not None:
                self._safely(lambda: answer(message_id))
        return message_id

    def _listen(self, client: Any) -> _Tap | None:  # noqa: ANN401 - the SDK need not be there
        tap = self._taps.get(client)
        if tap is None and self.patched and self._has_provider():
            mine = _Tap(self._hand_over, client, self._config.home)
            # Another thread may just do the same; a lock might be held for ever after a fork.
            tap = self._taps.setdefault(client, mine)
            if tap is mine:
                mine.open(client)
            # As late as possible: what is registered last is called first, and a provider ends
            # itself there too.
            atexit.unregister(self._at_exit)
            atexit.register(self._at_exit)
        return tap

    def _end(self, client: object) -> None:
        tap = self._taps.pop(client, None)
        if tap is not None:
            tap.close()
            self._worker.put(Ended(tap.process), always=True)

    def _ask(
        self, client: object, session_id: object = None, **_: object
    ) -> Callable[[object], None] | None:
        tap = self._listen(client)
        if tap is None or not isinstance(session_id, str):
            return None
        process, token = tap.process, object()
        self._worker.put(Asked(process, session_id, token, _current_span()), always=True)

        def answer(message_id: object) -> None:
            known = message_id if isinstance(message_id, str) else None
            self._worker.put(Answered(process, session_id, token, known), always=True)

        return answer

    def _hand_over(self, process: Process, method: object, payload: Mapping[str, Any]) -> None:
        try:
            item = notified(process, method, payload)
            if item is not None:
                event = getattr(item, "event", b"")
                self._worker.put(item, len(event) if isinstance(event, bytes) else 0)
        except Exception as error:  # noqa: BLE001 - the host must not suffer
            self._complain(error)

    # Providers, and what goes wrong

    def _provider(self) -> TracerProvider:
        given: TracerProvider | None = self._config.tracer_provider
        return given or trace.get_tracer_provider()

    def _has_provider(self) -> bool:
        if self._config.tracer_provider is not None:
            return True
        if hasattr(trace.get_tracer_provider(), "add_span_processor"):
            return True
        if not self._warned:
            self._warned = True
            _logger.warning(
                "no OpenTelemetry SDK is set up, dsh sessions are not traced: call "
                "trace.set_tracer_provider() first, or hand a provider over as tracer_provider; "
                "opentelemetry-instrument does so where opentelemetry-distro is installed, and the "
                "exporter that is asked for; for the one without grpc, set "
                "OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf"
            )
        return False

    def _safely(self, action: Callable[[], Any]) -> Any:  # noqa: ANN401 - whatever it returns
        try:
            return action()
        except Exception as error:  # noqa: BLE001 - the host must not suffer
            self._complain(error)
            return None

    def _complain(self, error: Exception) -> None:
        self._errors += 1
        if self._errors == 1:
            _logger.error("telemetry failed, spans may be missing: %r", error)


class _Tap:
    """Listens to one client, from a start of its runtime to the end."""

    def __init__(
        self,
        hand_over: Callable[[Process, object, Mapping[str, Any]], None],
        client: Any,  # noqa: ANN401 - the SDK need not be there
        home: Path | None,
    ) -> None:
        config = getattr(client, "config", None)
        root = _sessions_root(config) if home is None else home.resolve() / "sessions"
        self.process = Process(root, int(time.time() * 1000), _format())
        self._hand_over = hand_over
        self._subscription: Callable[[], Any] = _nothing

    def open(self, client: Any) -> None:  # noqa: ANN401 - as above
        """Begin to listen to the client."""
        process, hand_over = self.process, self._hand_over

        def hear(notification: Any) -> bool:  # noqa: ANN401 - as above
            hand_over(process, notification.method, notification.payload)
            # As a filter it lets nothing through: nothing is taken out of the program's hands.
            return False

        # It leads to the client, which must not live for its sake: the client keeps both.
        subscription = client.subscribe_notifications(hear)
        hear.subscription = subscription  # type: ignore[attr-defined]
        self._subscription = ref(subscription)

    def close(self) -> None:
        """Listen no more."""
        subscription = self._subscription()
        if subscription is not None:
            subscription.close()


def _nothing() -> None:
    """Stand for what is not there yet."""


def _current_span() -> SpanContext | None:
    context = trace.get_current_span().get_span_context()
    return context if context.is_valid else None


def _sessions_root(config: object) -> Path | None:
    """Return where a client's runtime keeps its sessions, as far as its settings say."""
    own = getattr(config, "env", None)
    env = {**os.environ, **(own if isinstance(own, dict) else {})}
    if env.get("DSH_SESSION_ROOT"):
        # The oldest SDK names the folder itself.
        return Path(env["DSH_SESSION_ROOT"]).expanduser().resolve()
    home = getattr(config, "dsh_home", None) or env.get("DSH_HOME", "").strip()
    return Path(home).expanduser().resolve() / "sessions" if home else None


def _installed() -> str:
    try:
        return version(DISTRIBUTION)
    except PackageNotFoundError:
        return ""


def _format() -> int | None:
    """Return the generation that the installed runtime writes, as far as that is known."""
    digits = (part for part in _installed().replace("rc", ".").split("."))
    numbers = tuple(int(part) for part in digits if part.isdigit())
    return next((kind for since, kind in FORMATS if numbers[: len(since)] >= since), None)


def _restore(owner: type, name: str, wrapper: object) -> None:
    """Take a wrapper off; where somebody has wrapped it again, that stays, around the original."""
    original = wrapper.__wrapped__  # type: ignore[attr-defined]
    outer = owner.__dict__.get(name)
    if outer is wrapper:
        setattr(owner, name, original)
        return
    for _ in range(MAX_LAYERS):
        inner = getattr(outer, "__wrapped__", None)
        if inner is wrapper:
            with contextlib.suppress(Exception):
                outer.__wrapped__ = original  # type: ignore[union-attr]
        outer = inner
