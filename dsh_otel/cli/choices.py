"""What options can be set to. Nothing heavy is imported here: the help needs it."""

from __future__ import annotations

from enum import StrEnum


class ContractChoice(StrEnum):
    """The contract to hold logs to."""

    AUTO = "auto"
    SEED = "seed"
    V0 = "v0"
    V4 = "v4"


class Source(StrEnum):
    """What may be concluded from what a log does not hold."""

    LOG = "log"
    STREAM = "stream"


class FailOn(StrEnum):
    """The least severe finding that makes a check fail; those above it in this list fail it too."""

    VIOLATION = "violation"
    DAMAGE = "damage"
    ADVICE = "advice"
    NEVER = "never"

    def counts(self, severity: str) -> bool:
        """Tell whether a finding of a severity makes the check fail."""
        if self is FailOn.NEVER:
            return False
        levels = list(FailOn)
        return levels.index(FailOn(severity)) <= levels.index(self)


class OutputFormat(StrEnum):
    """How a check writes what it found."""

    TEXT = "text"
    JSON = "json"
    JSONL = "jsonl"
    GITHUB = "github"
    JUNIT = "junit"
    SARIF = "sarif"


class Destination(StrEnum):
    """Where spans go."""

    OTLP = "otlp"
    FILE = "file"
    CONSOLE = "console"
