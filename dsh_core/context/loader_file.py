"""The file that names plugins, as YAML: bounded, without aliases, each entry read by itself.

Needs PyYAML; import this module where it is used.
"""

from __future__ import annotations

import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import yaml
from yaml.composer import ComposerError
from yaml.constructor import ConstructorError, SafeConstructor
from yaml.reader import ReaderError

from dsh_core.context.loader_errors import PluginFileError

if TYPE_CHECKING:
    from collections.abc import Hashable
    from pathlib import Path

MAX_BYTES: Final = 1 << 20
"""Size of a file."""

MAX_ENTRIES: Final = 1_000
"""Entries in a file."""

MAX_NODES: Final = 50_000
"""Values in a file, lists, mappings and keys included."""

MAX_DEPTH: Final = 50
"""Lists and mappings within each other."""

MAX_SCALAR: Final = 1_000
"""Characters of anything that is not text, a number or a date for example."""

_TEXT: Final = 300
_TEXT_TAGS: Final = frozenset({"tag:yaml.org,2002:str", "tag:yaml.org,2002:binary"})


@dataclass(frozen=True, slots=True)
class Item:
    """An item of the list.

    Attributes:
        position: Which, from 1.
        line: Where it begins, from 1.
        value: What it says, None if it cannot be read.
        problem: Why it cannot be read.
    """

    position: int
    line: int
    value: Any
    problem: str = ""


def read_items(path: Path) -> list[Item]:
    """Read the items of a YAML file that is a list.

    Args:
        path: The file.

    Returns:
        The items; what is wrong with one does not touch the others.

    Raises:
        PluginFileError: The file cannot be read, is too big, is no YAML or no list.
    """
    text = _read(path)
    try:
        root = yaml.compose(text, _BoundedLoader)
    except ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        problem = f"the character U+{int(error.character):04X} is not allowed; remove it"
        raise PluginFileError(path, line, problem, cause=error) from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        raise PluginFileError(path, line, _problem(error), cause=error) from error
    if not isinstance(root, yaml.SequenceNode):
        line = _line(root) if root else 1
        raise PluginFileError(path, line, "not a list; write `- name: …` for each plugin, or `[]`")
    if len(root.value) > MAX_ENTRIES:
        line = _line(root.value[MAX_ENTRIES])
        raise PluginFileError(path, line, f"more than {MAX_ENTRIES} entries; use several files")
    return [_item(position, node) for position, node in enumerate(root.value, start=1)]


class _BoundedLoader(yaml.SafeLoader):
    """Reads the structure of a file."""

    depth = 0
    nodes = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        problem = ""
        if self.check_event(yaml.AliasEvent):
            # An alias is how a small file becomes a huge or an endless value.
            problem = "aliases (`*name`) are not supported; write the value again"
        elif self.depth >= MAX_DEPTH:
            problem = f"more than {MAX_DEPTH} levels"
        elif self.nodes >= MAX_NODES:
            problem = f"more than {MAX_NODES} values"
        if problem:
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call] # stubs know half
            raise ComposerError(None, None, problem, mark)
        self.depth += 1
        self.nodes += 1
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node


class _StrictConstructor(SafeConstructor):
    """Makes plain values of the structure; never takes the last of two equal keys."""

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:  # noqa: ANN401, FBT001, FBT002 - as in the base class
        # Numbers such as 1:59:59 take quadratic time.
        is_text = not isinstance(node, yaml.ScalarNode) or node.tag in _TEXT_TAGS
        if not is_text and len(node.value) > MAX_SCALAR:
            problem = f"more than {MAX_SCALAR} characters that are no text; quote them"
            raise ConstructorError(None, None, problem, node.start_mark)
        return super().construct_object(node, deep=deep)

    def construct_mapping(
        self,
        node: yaml.MappingNode,
        deep: bool = False,  # noqa: FBT001, FBT002 - as in the base class
    ) -> dict[Hashable, Any]:
        seen = set()
        # A tag can claim that anything is a mapping; the base class says so.
        for key, _ in node.value if node.id == "mapping" else ():
            if not isinstance(key, yaml.ScalarNode):
                continue
            if (key.tag, key.value) in seen:
                problem = f"the key {key.value!r:.80} is there twice"
                raise ConstructorError(None, None, problem, key.start_mark)
            seen.add((key.tag, key.value))
        return super().construct_mapping(node, deep=deep)


def _read(path: Path) -> str:
    try:
        # A pipe would block, a device would never end.
        if not stat.S_ISREG(path.stat().st_mode):
            raise PluginFileError(path, 0, "not a file")
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        problem = getattr(error, "strerror", None) or str(error)
        raise PluginFileError(path, 0, f"cannot be read: {problem}", cause=error) from error
    if len(data) > MAX_BYTES:
        line = data.count(b"\n", 0, MAX_BYTES) + 1
        raise PluginFileError(path, line, f"longer than {MAX_BYTES} bytes; use several files")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise PluginFileError(path, line, "not UTF-8; save it as such", cause=error) from error


def _item(position: int, node: yaml.Node) -> Item:
    try:
        # A new one each time: after an error it would go on with what it had begun.
        value = _StrictConstructor().construct_document(node)
    except Exception as error:  # noqa: BLE001 - a bad date, number or tag, each raises its own
        return Item(position, _line(node), None, _problem(error))
    return Item(position, _line(node), value)


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1


def _problem(error: Exception) -> str:
    if not isinstance(error, yaml.MarkedYAMLError):
        return f"{error!r:.{_TEXT}}"
    mark = error.problem_mark
    place = f" (line {mark.line + 1}, column {mark.column + 1})" if mark else ""
    return f"{error.problem or 'no YAML':.{_TEXT}}{place}"
