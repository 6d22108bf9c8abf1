"""A FAKE of the Python SDK: same modules, names and calls, and a script instead of a runtime.

What it does is what `deepseek_harness` 0.2.1rc2 does with what its runtime tells; the end-to-end
tests use the real one.
"""

from __future__ import annotations

import queue
import threading
import types
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(slots=True)
class Notification:
    method: str
    payload: dict[str, Any]


@dataclass(slots=True)
class HarnessConfig:
    dsh_home: str | None = None
    cwd: str | None = None
    env: dict[str, str] | None = None
    script: list[dict[str, Any]] = field(default_factory=list)


class Subscription:
    def __init__(self, client: Any, key: object, told: queue.Queue[Any]) -> None:
        self._client, self._key, self._told = client, key, told

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._client._subscribers.pop(self._key, None)

    def next(self) -> Notification:
        item: Notification | BaseException = self._told.get(timeout=10)
        if isinstance(item, BaseException):
            raise item
        return item


_INHERITED = ("__dict__", "__weakref__")


class _Client:
    def __init__(self, config: HarnessConfig | None = None) -> None:
        self.config = config or HarnessConfig()
        self._running = False
        self._subscribers: dict[object, tuple[queue.Queue[Any], Any]] = {}
        self._notifications: queue.Queue[Any] = queue.Queue()
        self._script = list(self.config.script)

    def start(self) -> None:
        self._running = True

    def close(self) -> None:
        if self._running:
            self._running = False
            subscribers = list(self._subscribers.values())
            self._subscribers.clear()
            for told, _ in subscribers:
                told.put(EOFError("closed"))

    def subscribe_notifications(
        self, notification_filter: Callable[[Notification], bool] | None = None
    ) -> Subscription:
        key, told = object(), queue.Queue[Any]()
        self._subscribers[key] = (told, notification_filter)
        return Subscription(self, key, told)

    def session_prompt(
        self,
        session_id: str,
        content_blocks: list[dict[str, Any]],
        *,
        notification_subscription: Any = None,
    ) -> str:
        if not self._running:
            raise EOFError("not running")
        reader = threading.Thread(target=self._tell)
        reader.start()
        reader.join()
        inserted = [
            message["id"]
            for one in self.config.script
            if one["payload"].get("event", {}).get("type") == "agent/inbox/spliced"
            for message in one["payload"]["event"]["data"].get("inserted", ())
        ]
        return str(inserted[0])

    def next_notification(self) -> Notification:
        return self._notifications.get(timeout=10)  # type: ignore[no-any-return]

    def _tell(self) -> None:
        script, self._script = self._script, []
        for one in script:
            notification = Notification(one["method"], one["payload"])
            delivered = False
            for key, (told, wanted) in list(self._subscribers.items()):
                try:
                    matches = wanted is None or wanted(notification)
                except Exception as error:  # noqa: BLE001 - as the real one
                    self._subscribers.pop(key, None)
                    told.put(error)
                    continue
                if matches:
                    told.put(notification)
                    delivered = True
            if not delivered:
                self._notifications.put(notification)


class _Harness:
    client_class: type = object

    def __init__(self, config: HarnessConfig) -> None:
        self.client: Any = self.client_class(config)

    def __enter__(self) -> Any:
        self.client.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.client.close()

    def run(
        self,
        text: str,
        *,
        session_id: str,
        on_notification: Callable[[Notification], None] | None = None,
    ) -> list[Notification]:
        self.client.start()
        told = []
        with self.client.subscribe_notifications() as subscription:
            self.client.session_prompt(
                session_id, [{"type": "text", "text": text}], notification_subscription=None
            )
            while True:
                notification = subscription.next()
                told.append(notification)
                if on_notification is not None:
                    on_notification(notification)
                if notification.payload.get("status") == "idle":
                    return told


def make() -> dict[str, types.ModuleType]:
    """Return the modules, made anew: what a test patches is gone with them."""
    own = {name: value for name, value in vars(_Client).items() if name not in _INHERITED}
    made = type("HarnessClient", (), own)
    package = types.ModuleType("deepseek_harness")
    client = types.ModuleType("deepseek_harness.client")
    client.HarnessClient = made  # type: ignore[attr-defined]
    package.HarnessClient = made  # type: ignore[attr-defined]
    package.DeepSeekHarness = type("DeepSeekHarness", (_Harness,), {"client_class": made})  # type: ignore[attr-defined]
    package.client = client  # type: ignore[attr-defined]
    return {package.__name__: package, client.__name__: client}
