"""The switch of dsh that turns all telemetry off."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

DISABLED: Final = "DSH_TELEMETRY_DISABLED"
_OFF: Final = frozenset({"", "0", "false", "no", "off"})


def telemetry_disabled(environ: Mapping[str, str]) -> bool:
    """Tell whether ``DSH_TELEMETRY_DISABLED`` is set to anything that does not mean no."""
    return environ.get(DISABLED, "").strip().lower() not in _OFF
