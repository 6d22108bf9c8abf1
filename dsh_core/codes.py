"""What an error code means and what to do about it.

Codes come from the harness, from its plugins and from the operating system, and no list of them is
ever complete. Decisions therefore hang on families, a closed set: a code has a family, by the table
or by the way it is spelled, and the family has a route. A route is advice and nothing more: nothing
here retries a call or widens a right.
"""

from __future__ import annotations

import errno
import os
import re
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from dsh_core import _code_table as table

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "ADVICE",
    "CODES",
    "Advice",
    "Classification",
    "CodeInfo",
    "Family",
    "Retryable",
    "Route",
    "Where",
    "classify",
    "infer_code",
    "is_permanent",
    "lookup",
]


class Family(StrEnum):
    """Kinds of failure, as far as the next move differs."""

    MISSING = "missing"
    DENIED = "denied"
    POLICY = "policy"
    SANDBOX_BROKEN = "sandbox-broken"
    TRANSIENT = "transient"
    EXHAUSTED = "exhausted"
    BAD_ARGS = "bad-args"
    CANCELLED = "cancelled"
    UNKNOWN_OUTCOME = "unknown-outcome"
    CONTRACT = "contract"
    UNCODED = "uncoded"


class Route(StrEnum):
    """Who should act next, or how."""

    REPLAN = "replan"
    ASK = "ask"
    ESCALATE = "escalate"
    OPERATOR = "operator"
    RETRY = "retry"
    SELF_CORRECT = "self-correct"
    RERUN = "rerun"
    CHECK_FIRST = "check-first"
    REPORT = "report"


class Retryable(StrEnum):
    """Whether the call may be repeated."""

    NO = "no"
    WITH_BACKOFF = "with-backoff"
    AFTER_CHANGE = "after-change"
    SAFE = "safe"
    NEVER_BLINDLY = "never-blindly"


class Where(StrEnum):
    """Where a code stands: in a session event, only in a tool's text, or never in a session."""

    LOG = "log"
    TEXT = "text"
    HOST = "host"
    INFERRED = "inferred"  # given here to a text that came without a code
    ERRNO = "errno"  # a name of the operating system, read from a text
    RULE = "rule"  # in no table; classed by its spelling


class Advice(NamedTuple):
    """What follows from a family."""

    route: Route
    retryable: Retryable


ADVICE: Final[Mapping[Family, Advice]] = MappingProxyType(
    {
        Family.MISSING: Advice(Route.REPLAN, Retryable.NO),
        Family.DENIED: Advice(Route.ASK, Retryable.NO),
        Family.POLICY: Advice(Route.ESCALATE, Retryable.NO),
        Family.SANDBOX_BROKEN: Advice(Route.OPERATOR, Retryable.NO),
        Family.TRANSIENT: Advice(Route.RETRY, Retryable.WITH_BACKOFF),
        Family.EXHAUSTED: Advice(Route.OPERATOR, Retryable.NO),
        Family.BAD_ARGS: Advice(Route.SELF_CORRECT, Retryable.AFTER_CHANGE),
        Family.CANCELLED: Advice(Route.RERUN, Retryable.SAFE),
        Family.UNKNOWN_OUTCOME: Advice(Route.CHECK_FIRST, Retryable.NEVER_BLINDLY),
        Family.CONTRACT: Advice(Route.REPORT, Retryable.NO),
        Family.UNCODED: Advice(Route.REPORT, Retryable.NO),
    }
)
"""The only place where routes are decided."""

# A code nobody knows says that something failed, not whether it took effect. "Look before you
# repeat" is the one advice that is wrong for no such failure, and it starts no retries.
_DEFAULT: Final = Family.UNKNOWN_OUTCOME

# Exhausted counts too: a full disk or an empty account does not mend between two identical calls,
# somebody has to act first, and a loop that runs against it is what this is asked for.
_PERMANENT: Final = frozenset(Family) - {
    *(Family.TRANSIENT, Family.CANCELLED, Family.UNKNOWN_OUTCOME, Family.UNCODED)
}
_RIGHTS: Final = frozenset({Family.DENIED, Family.POLICY, Family.SANDBOX_BROKEN})


@dataclass(frozen=True, slots=True)
class CodeInfo:
    """What is known of one code.

    Attributes:
        code: The spelling.
        meaning: What it says, in one clause.
        errno: Nearest name of the operating system, if there is one.
        family: Kind of failure.
        permission: Whether a right, an account or a sandbox decides.
        where: Where the code stands.
        area: Part of the harness it belongs to.
        known: False if the code is in no table and was classed by its spelling.
    """

    code: str
    meaning: str
    errno: str | None
    family: Family
    permission: bool
    where: Where
    area: str
    known: bool = True

    @property
    def route(self) -> Route:
        """Who should act next."""
        return ADVICE[self.family].route

    @property
    def retryable(self) -> Retryable:
        """Whether the call may be repeated."""
        return ADVICE[self.family].retryable


@dataclass(frozen=True, slots=True)
class Classification:
    """The verdict on one failure.

    Attributes:
        code: The code that came with the failure, else the one found in its text, else None.
        name: Class name that came with the failure.
        family: Kind of failure.
        route: Who should act next.
        retryable: Whether the call may be repeated.
        inferred: Whether the family rests on the text, not on a code that came with the failure.
        errno: Nearest name of the operating system, if there is one.
    """

    code: str | None
    name: str | None
    family: Family
    route: Route
    retryable: Retryable
    inferred: bool
    errno: str | None


def _read_tables() -> dict[str, CodeInfo]:
    """Give the rows of the table types, and every errno name a row."""
    codes: dict[str, CodeInfo] = {}
    area = place = ""
    for line in filter(None, table.TABLE.splitlines()):
        if line.startswith("["):
            area, _, place = line[1:].partition("] ")
            continue
        code, nearest, kind, perm, meaning = line.split(None, 4)
        system, family, right = nearest.strip("-") or None, Family(kind), perm == "yes"
        codes[code] = CodeInfo(code, meaning, system, family, right, Where(place), area)
    families = {n: Family(f) for f, names in table.ERRNO_FAMILIES.items() for n in names.split()}
    # Names of other systems stay in: a log is not always read where it was written.
    for name in sorted(families.keys() | {n for n in vars(errno) if n.startswith("E")}):
        number = getattr(errno, name, None)
        meaning = "a system error unknown here" if number is None else os.strerror(number)
        family = families.get(name, _DEFAULT)
        right = family in _RIGHTS
        codes[name] = CodeInfo(name, meaning, name, family, right, Where.ERRNO, "system")
    return codes


CODES: Final[Mapping[str, CodeInfo]] = MappingProxyType(_read_tables())
"""Every known code, by area, within an area by name; errno names last."""

# ------------------------------------------------------------------------------- codes by spelling

_LONGEST: Final = 128
# Words that only look like an errno name.
_WORDS: Final = frozenset({"EMPTY", "ENDED", "ERROR", "EXCEPTION", "EXISTS", "EXPIRED"})
_E_NAME: Final = re.compile(r"E[A-Z0-9]{2,30}")
_HTTP: Final = re.compile(r"HTTP_[0-9]+$")
_SPELLINGS: Final = tuple((Family(family), re.compile(rule)) for family, rule in table.SPELLINGS)


def lookup(code: str) -> CodeInfo:
    """Tell what a code means.

    Args:
        code: Any string.

    Returns:
        The row of the table, else a row made by the rules of spelling, with ``known`` False.
    """
    info = CODES.get(code)
    if info is not None:
        return info
    return _by_rule(code) if _is_plain(code) else _unknown(code, _DEFAULT, None)


def is_permanent(code: str) -> bool:
    """Tell whether repeating the identical call is pointless.

    Args:
        code: Any string.

    Returns:
        True if something else has to change first.
    """
    return lookup(code).family in _PERMANENT


def _is_plain(code: str) -> bool:
    """Tell whether a string may be taken for a code, and be kept in a cache."""
    return len(code) <= _LONGEST and code.isprintable()


def _unknown(code: str, family: Family, nearest: str | None) -> CodeInfo:
    """Make a row for a code that has none."""
    meaning = "not in the table; classed by its spelling"
    return CodeInfo(code, meaning, nearest, family, family in _RIGHTS, Where.RULE, "", known=False)


@lru_cache(maxsize=1024)
def _by_rule(code: str) -> CodeInfo:
    """Class a code by its spelling; lower case and hyphens make no difference."""
    folded = code.upper().replace("-", "_")
    same = CODES.get(folded)
    if same is not None:
        return _unknown(code, same.family, same.errno)
    if _E_NAME.fullmatch(code) and code not in _WORDS:
        return _unknown(code, _DEFAULT, code)
    found = (family for family, rule in _SPELLINGS if rule.search(folded))
    return _unknown(code, next(found, _DEFAULT), "EPROTO" if _HTTP.match(folded) else None)


# --------------------------------------------------------------------------------- codes from text

# Of a long text only the two ends are read: an error says what it is first or last.
_HEAD: Final = 4096
_TAIL: Final = 1024

_PREFIX: Final = re.compile(r"(?:[A-Za-z_][\w.]{0,99})?(?:[Ee]rror|Exception)(?: \[\w{1,64}\])?: ")
_SYSCALL: Final = r"(?:accept|bind|connect|getaddrinfo|listen|read|write|spawn [^\n:]{1,256}?)"
_BY_NUMBER: Final = r"\(os error ([0-9]{1,5})\)|\[Errno ([0-9]{1,5})\]"  # Rust, Python
# In a line that says it is an error, a code may follow any colon: causes are written one after the
# other. In any other line it has to be where a bare message has it.
_IN_ERROR: Final = re.compile(
    rf"(?:^|: )(E[A-Z0-9]{{1,30}})(?=: )|(?:^|: ){_SYSCALL} (E[A-Z]{{2,30}})\b|{_BY_NUMBER}"
)
_IN_LINE: Final = re.compile(
    r"^(E[A-Z0-9]{1,30})(?=: )|^\[Errno ([0-9]{1,5})\]|\(os error ([0-9]{1,5})\)$"
)
# Node's whole form, `CODE: words, syscall 'path'`, vouches for a name no table has.
_NODE: Final = re.compile(r"(E[A-Z0-9]{2,30}): [^\n]+?, [a-z]\w{0,31}(?: '[^\n]*)?$")

_NOTE: Final = re.compile(r"\[(?:sandbox|exit code|killed by|timed out|output truncated)\b.*\]")
_DENIED: Final = re.compile(table.ACCESS_DENIED)
_MARKERS: Final = tuple((re.compile(words), code) for words, code in table.MARKERS)
_TEXT_COUNTS: Final = table.UNSPECIFIC | table.FINER.keys()


def classify(code: str | None, name: str | None = None, text: str | None = None) -> Classification:
    """Judge one failure of a tool, a model or a turn.

    A code that came with the failure wins. Where it names no cause (``UNKNOWN``, a failed search)
    the text may give the family; where there is none, the text may give the code as well.

    Args:
        code: The code that came with the failure.
        name: The class name that came with it.
        text: What the failure says to its reader.

    Returns:
        Family and advice; family ``uncoded`` if there is no code at all.
    """
    if code and (not text or code not in _TEXT_COUNTS):
        if _is_plain(code) and (name is None or _is_plain(name)):
            return _by_code(code, name)
        return _verdict(code, name, lookup(code))
    text = text or ""
    if code and code not in table.UNSPECIFIC:
        return _verdict(code, name, lookup(code), text)
    found = _infer(text, is_error=bool(code))
    if found is not None:
        return _verdict(code or found, name, lookup(found), text, inferred=True)
    if code:
        return _verdict(code, name, lookup(code))
    advice = ADVICE[Family.UNCODED]
    return Classification(None, name, Family.UNCODED, *advice, inferred=False, errno=None)


def infer_code(text: str) -> str | None:
    """Find the code of a failure that came without one.

    Args:
        text: The text of a failed result; only its beginning and its end are read.

    Returns:
        An errno name, or the code of a harness failure known by its wording; None if the text does
        not say.
    """
    return _infer(text, is_error=False)


@lru_cache(maxsize=1024)
def _by_code(code: str, name: str | None) -> Classification:
    """Judge by the code alone, once for each code and name."""
    return _verdict(code, name, lookup(code))


def _verdict(
    code: str, name: str | None, info: CodeInfo, text: str = "", *, inferred: bool = False
) -> Classification:
    """Put a verdict together."""
    nearest = info.errno
    words, finer = table.FINER.get(info.code, ("", nearest))
    if words and (words in text[:_HEAD] or words in text[-_TAIL:]):
        nearest = finer
    return Classification(code, name, info.family, *ADVICE[info.family], inferred, nearest)


def _infer(text: str, *, is_error: bool) -> str | None:
    """Look at the first line, the notes under the output, and the last line above them."""
    first = text[:_HEAD].lstrip().partition("\n")[0].rstrip()
    message = first.removeprefix("Error: ")
    for marker, code in _MARKERS:
        if marker.match(message):
            return code
    last, denied = _ending(text)
    if denied:
        return "FS_SANDBOX_DENIED"
    return _errno_in(first, is_error=is_error) or _errno_in(last, is_error=False)


def _ending(text: str) -> tuple[str, bool]:
    """Find the last line above the tool's notes, and whether a note tells of a denied access."""
    tail = text[-_TAIL:].rstrip()
    lines = tail.split("\n")
    if len(text) > _TAIL:
        lines[0] = f"\N{HORIZONTAL ELLIPSIS}{lines[0]}"  # cut: this is no beginning of a line
    denied = False
    while lines and (not lines[-1].strip() or _NOTE.fullmatch(lines[-1].strip())):
        denied = denied or _DENIED.fullmatch(lines[-1].strip()) is not None
        lines.pop()
    return lines[-1].strip() if lines else "", denied


def _errno_in(line: str, *, is_error: bool) -> str | None:
    """Find a system error in one line."""
    prefix = _PREFIX.match(line)
    message = line[prefix.end() :] if prefix else line
    is_error = is_error or prefix is not None
    for match in (_IN_ERROR if is_error else _IN_LINE).finditer(message):
        token = match[match.lastindex or 0]
        found = CODES.get(errno.errorcode.get(int(token), "") if token.isdigit() else token)
        if found is not None and found.where is Where.ERRNO:
            return found.code
    node = _NODE.match(message) if is_error else None
    return node[1] if node and node[1] not in _WORDS else None
