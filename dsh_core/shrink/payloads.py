"""Leaving out of single events what a finding does not need, above all what people wrote."""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING, Any, Final

from dsh_core.decode import PACKED_ROWS
from dsh_core.events import KNOWN_EVENTS
from dsh_core.logs.lines import MAX_LINE
from dsh_core.shrink.rows import Row
from dsh_core.shrink.search import sweep

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from dsh_core.shrink.search import Search

    Path = tuple[Any, ...]

MAX_TEXT: Final = 16
"""Texts of more characters are replaced."""

MAX_LEVEL: Final = 32
"""How deep keys and items are left out."""

MAX_BYTES: Final = 1 << 20
"""Lines that are no JSON are shortened byte by byte, unless they have more bytes."""

_ENVELOPE: Final = frozenset({"type", "seq", "seq0", "time", "time0", "data"})
_HEADER: Final = frozenset({"type", "version"})
_PLACE: Final = frozenset({"turn", "step"})
_KNOWN: Final = {"session", *KNOWN_EVENTS, *(cls.__struct_config__.tag for cls in PACKED_ROWS)}
_HEAD: Final = re.compile(
    rb'\{"type":"[^"\\]*","seq":\d+,"time":\d+,"data":\{(?:"turn":\d+)?(?:,"step":\d+)?'
)
_DRIVE: Final = re.compile(r"[A-Za-z]:[/\\]")


class Payloads:
    """Makes the rows of a search's least log smaller, one by one.

    Args:
        search: The search.
    """

    def __init__(self, search: Search) -> None:
        self._search = search

    def reduce(self) -> None:
        """Leave out keys and items, replace long texts, shorten lines that are no JSON."""
        self.replace_texts()
        for level in range(1, MAX_LEVEL):
            # Of the first two levels all may be fixed, and still there may be more below.
            if not self._leave_out(level) and level > 2:  # noqa: PLR2004 - as it says
                break
        self._replace_texts_one_by_one()
        self._shorten_lines()

    def replace_texts(self) -> bool:
        """Replace all long texts at once, if the finding does not need them.

        Returns:
            Whether none is left.
        """
        self._change(lambda text: text)
        texts = self._long_texts()
        return not texts or self._change_texts(self._names(texts))

    # ----------------------------------------------------------------------------- keys and items

    def _leave_out(self, level: int) -> bool:
        """Leave out keys and items that lie so deep; return whether there were any."""
        rows = self._rows()
        nodes = [
            (k, path)
            for k, row in enumerate(rows)
            if row.value is not None
            for path in _nodes(row.value, level, header=k == 0 and self._has_header())
        ]

        def enough(kept: Sequence[tuple[int, Path]]) -> bool:
            gone: dict[int, dict[Any, Any]] = {}
            for k, path in set(nodes).difference(kept):
                branch = gone.setdefault(k, {})
                for key in path[:-1]:
                    branch = branch.setdefault(key, {})
                branch[path[-1]] = None
            fewer = [
                row.with_value(_without(row.value, gone[k])) if k in gone else row
                for k, row in enumerate(rows)
            ]
            # Else a broken payload would stand for what is really wrong.
            return self._try(fewer, same_words=True)

        sweep(nodes, enough, len(nodes))
        return bool(nodes)

    # --------------------------------------------------------------------------------------- texts

    def _replace_texts_one_by_one(self) -> None:
        """Replace each long text that the finding does not need, wherever it stands."""
        texts = self._long_texts()
        sweep(
            texts,
            lambda kept: self._change_texts(self._names(t for t in texts if t not in kept)),
            len(texts),
        )
        for text in self._long_texts():
            # An id may be a part of another one.
            if not self._replace_parts(text, self._names([text])[text]):
                self._replace_in_single_rows(text)
        for text in self._long_texts():
            self._shorten_text(text)

    def _replace_parts(self, text: str, new: str) -> bool:
        return self._change(lambda whole: whole.replace(text, new))

    def _shorten_text(self, text: str) -> None:
        """Leave out the characters of a text that the finding does not need."""
        rest = [text]

        def enough(kept: Sequence[str]) -> bool:
            old, new = rest[0], "".join(kept)
            if not self._change(lambda one: new if one == old else one):
                return False
            rest[0] = new
            return True

        if len(text) <= MAX_BYTES:
            sweep(text, enough, again=False)

    def _replace_in_single_rows(self, text: str) -> None:
        for k in range(len(self._rows())):
            self._replace_in_row(k, text, self._names([text])[text])

    def _replace_in_row(self, k: int, text: str, new: str) -> None:
        rows = self._rows()
        changed = _with_texts(rows[k], lambda one: new if one == text else one)
        if changed.raw != rows[k].raw:
            self._try([*rows[:k], changed, *rows[k + 1 :]])

    def _all_texts(self) -> Iterable[str]:
        return (t for row in self._rows() if row.value is not None for t in _texts(row.value))

    def _long_texts(self) -> list[str]:
        return list(dict.fromkeys(text for text in self._all_texts() if len(text) > MAX_TEXT))

    def _names(self, texts: Iterable[str]) -> Mapping[str, str]:
        """Return a short text for each of some, such that none becomes equal to another."""
        taken = set(self._all_texts())
        numbers = itertools.count(1)
        found: dict[str, str] = {}
        for text in texts:
            new = next(new for n in numbers if (new := _short(text, n)) not in taken)
            found[text] = new
        return found

    def _change_texts(self, names: Mapping[str, str]) -> bool:
        return self._change(lambda text: names.get(text, text))

    # --------------------------------------------------------------------------------------- lines

    def _shorten_lines(self) -> None:
        """Shorten the lines that are no JSON."""
        for k in range(len(self._rows())):
            if self._rows()[k].value is None:
                self._shorten(k)

    def _shorten(self, k: int) -> None:
        rows = self._rows()
        content = rows[k].raw.removesuffix(b"\n")
        end = rows[k].raw[len(content) :]

        def enough(parts: Sequence[bytes]) -> bool:
            return self._try([*rows[:k], Row(b"".join(parts) + end), *rows[k + 1 :]])

        # The beginning of an event stays or goes as a whole.
        match = _HEAD.match(content)
        head = match[0] if match else b""
        if len(content) > MAX_LINE:
            filled = [b"x" * (MAX_LINE + 1 - len(head))]
            _ = enough([b"x", *filled]) or enough([head, *filled])
        elif len(content) <= MAX_BYTES:
            rest = content[len(head) :]
            sweep([head, *(rest[n : n + 1] for n in range(len(rest)))], enough, again=False)

    # ------------------------------------------------------------------------------------ the rows

    def _has_header(self) -> bool:
        return self._search.state.header is not None

    def _rows(self) -> Sequence[Row]:
        state = self._search.state
        return [state.header, *state.rows] if state.header is not None else state.rows

    def _try(self, rows: Sequence[Row], *, same_words: bool = False) -> bool:
        header = rows[0] if self._has_header() else None
        rows = rows[1:] if header else rows
        return self._search.try_exactly(header, rows, same_words=same_words)

    def _change(self, change: Callable[[str], str]) -> bool:
        """Change the texts of all rows at once."""
        return self._try([_with_texts(row, change) for row in self._rows()])


def _with_texts(row: Row, change: Callable[[str], str]) -> Row:
    """Return a row with all texts changed, but for its type if that is a known one."""
    value = row.value
    if value is None:
        return row
    found = _changed(value, change)
    return row.with_value(
        found | {"type": value["type"]} if str(value.get("type")) in _KNOWN else found
    )


def _nodes(value: dict[str, Any], level: int, *, header: bool) -> Iterable[Path]:
    """Yield the places of what can be left out and lies so deep."""
    if level == 1:
        fixed = _HEADER if header else _ENVELOPE
        yield from ((key,) for key in value if key not in fixed)
        return
    for key, item in value.items():
        for path in _below(item, level - 1):
            if level > 2 or not _is_fixed(key, path[0], item):  # noqa: PLR2004 - the envelope's
                yield (key, *path)


def _is_fixed(field: str, key: object, item: object) -> bool:
    """Whether a part of an event is never left out: its coordinates, and what it replaces."""
    if not isinstance(item, dict):
        return False
    return field == "surfaceOp" or (
        field == "data" and key in _PLACE and isinstance(item[key], int)
    )


def _below(value: object, level: int) -> Iterable[Path]:
    if isinstance(value, dict):
        items: Iterable[tuple[Any, Any]] = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    else:
        return
    for key, item in items:
        if level == 1:
            yield (key,)
        else:
            yield from ((key, *path) for path in _below(item, level - 1))


def _without(value: Any, gone: Mapping[Any, Any]) -> Any:  # noqa: ANN401 - any JSON value
    """Return a value without some of its parts: by key, None for all of it."""
    if isinstance(value, dict):
        return {
            key: _without(item, gone[key]) if key in gone else item
            for key, item in value.items()
            if gone.get(key, gone) is not None
        }
    return [
        _without(item, gone[k]) if k in gone else item
        for k, item in enumerate(value)
        if gone.get(k, gone) is not None
    ]


def _short(text: str, n: int) -> str:
    """Return a short text that may stand where another one stood."""
    if text.startswith("{") and text.endswith("}"):
        return f'{{"x":{n}}}'
    if text.startswith("[") and text.endswith("]"):
        return f"[{n}]"
    if text.startswith(("/", "\\\\")) or _DRIVE.match(text):
        return f"/x{n}"
    return f"x{n}"


def _texts(event: dict[str, Any]) -> Iterable[str]:
    """Yield the texts of an event or header row, but for its type if that is a known one."""
    stack: list[Any] = [item for key, item in event.items() if key != "type"]
    stack += () if str(event.get("type")) in _KNOWN else (event.get("type"),)
    while stack:
        value = stack.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict):
            stack.extend(value.values())
        elif isinstance(value, list):
            stack.extend(value)


def _changed(value: Any, change: Callable[[str], str]) -> Any:  # noqa: ANN401 - any JSON value
    """Return a value with all texts changed, but for keys."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        # Loops, since a comprehension may cost a second frame for every level.
        found = {}
        for key, item in value.items():
            found[key] = _changed(item, change)
        return found
    if isinstance(value, list):
        items = []
        for item in value:
            items.append(_changed(item, change))  # noqa: PERF401 - as above
        return items
    return value
