"""Contexts, plugins, services, effects and events: what everything live is built of."""

from dsh_core.context.context import Context, PropertyError
from dsh_core.context.effects import Disposer
from dsh_core.context.fiber import ContextError, Fiber, FiberState
from dsh_core.context.plugins import ConfigError
from dsh_core.context.service import Service, ServiceError

__all__ = [
    "ConfigError",
    "Context",
    "ContextError",
    "Disposer",
    "Fiber",
    "FiberState",
    "PropertyError",
    "Service",
    "ServiceError",
]
