"""Where the test data lies; see the README there."""

from __future__ import annotations

from pathlib import Path
from typing import Final

DATA: Final = Path(__file__).parent / "data"
CASES: Final = DATA / "cases"
VECTORS: Final = DATA / "vectors"
DECODED: Final = DATA / "sessions" / "decoded"
HOMES: Final = DATA / "sessions" / "homes"
NOTIFICATIONS: Final = DATA / "sessions" / "notifications"
OTLP: Final = DATA / "sessions" / "otlp"
