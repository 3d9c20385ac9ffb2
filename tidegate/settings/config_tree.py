"""YAML or JSON text as plain values, with the line of each: what a fault needs to say its place.

JSON is read through the YAML node tree as well (a tab in JSON can only be white space, so it becomes a space),
and each of its scalars is then decoded by JSON's own rules.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import yaml
from yaml.constructor import ConstructorError, SafeConstructor
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

Path = tuple[str | int, ...]

MOST_VALUES: Final = 200_000  # a file that expands to more through its aliases is an attack or a mistake
_TAG: Final = "tag:yaml.org,2002:"
_MERGE: Final = _TAG + "merge"
_SCALARS: Final = {_TAG + kind for kind in ("null", "bool", "int", "float", "str", "timestamp", "value")}
_UNREADABLE: Final = (ValueError, LookupError, AttributeError, OverflowError, ConstructorError)  # as PyYAML raises
_PLAIN_KEY: Final = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)


@dataclass(frozen=True, slots=True, order=True)
class Fault:
    """What is wrong, and where: `line` counts from 1, 0 is the file as a whole."""

    line: int
    path: str
    sentence: str


@dataclass(slots=True)
class Tree:
    """Plain values of a file, the line and the written text of each, and the faults found on the way."""

    value: Any = None
    lines: dict[Path, int] = field(default_factory=dict)
    written: dict[Path, str] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)

    def line(self, path: Path) -> int:
        """The line of `path`, or of the nearest part around it that has one."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)

    def fault(self, path: Path, sentence: str) -> Fault:
        """A fault at `path`."""
        return Fault(self.line(path), path_text(path), sentence)


def path_text(path: Path) -> str:
    """`clusters[1].endpoints[0].address`; a key that is no plain word is quoted: `splits['qwen2.5']`."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        elif _PLAIN_KEY.fullmatch(part):
            text += f".{part}" if text else part
        else:
            text += f"[{part!r}]"
    return text


def read_tree(text: str, *, is_json: bool) -> Tree:
    """Parse `text`; what cannot be parsed at all is one fault. `is_json` forbids what only YAML allows."""
    decode: Callable[[ScalarNode], Any] = _yaml_scalar
    problem = _json_problem(text)
    if problem is None:
        text = text.replace("\t", " ")
        original = text
        decode = lambda node: json.loads(original[node.start_mark.index : node.end_mark.index])  # noqa: E731
    elif is_json:
        return Tree(faults=[problem])
    try:
        return _Builder(decode).build(yaml.compose(text, Loader=yaml.SafeLoader))
    except yaml.YAMLError as exc:
        return Tree(faults=[_syntax_fault(text, exc)])
    except RecursionError:
        return Tree(faults=[Fault(1, "", "the file is nested too deeply")])


def _json_problem(text: str) -> Fault | None:
    try:
        json.loads(text)
    except json.JSONDecodeError as exc:
        return Fault(exc.lineno, "", f"not JSON: {exc.msg.lower()} (column {exc.colno})")
    except (RecursionError, ValueError):
        return Fault(1, "", "not JSON: nested too deeply, or a number with too many digits")
    return None


def _syntax_fault(text: str, exc: yaml.YAMLError) -> Fault:
    if isinstance(exc, yaml.MarkedYAMLError) and exc.problem_mark is not None:
        mark = exc.problem_mark
        said = (exc.problem or "cannot be read").replace("'\\t'", "a tab")
        hint = "; indent with spaces, not tabs" if "a tab" in said else ""
        return Fault(mark.line + 1, "", f"not YAML: {said} (column {mark.column + 1}){hint}")
    position = getattr(exc, "position", 0)
    line = text.count("\n", 0, position if isinstance(position, int) else 0) + 1
    return Fault(line, "", "not YAML: a character that is not allowed, such as a control character")


def _yaml_scalar(node: ScalarNode) -> Any:
    return SafeConstructor().construct_object(node)


class _TooLarge(Exception):  # noqa: N818 - leaves this module as a fault
    pass


class _Builder:
    """Walks a node tree once, filling a Tree."""

    def __init__(self, decode: Callable[[ScalarNode], Any]) -> None:
        self._decode, self._tree = decode, Tree()
        self._open: set[int] = set()
        self._count = 0

    def build(self, root: Node | None) -> Tree:
        if root is None:
            self._tree.faults.append(Fault(1, "", "the file is empty; it needs at least `clusters`"))
            return self._tree
        self._tree.lines[()] = root.start_mark.line + 1
        try:
            self._tree.value = self._value(root, ())
        except _TooLarge:
            self._tree.faults.append(Fault(1, "", f"aliases expand to more than {MOST_VALUES} values"))
        return self._tree

    def _value(self, node: Node, path: Path) -> Any:
        self._tree.lines.setdefault(path, node.start_mark.line + 1)
        self._count += 1
        if self._count > MOST_VALUES:
            raise _TooLarge
        if id(node) in self._open:
            return self._refuse(path, "an alias contains itself")
        self._open.add(id(node))
        try:
            return self._of_kind(node, path)
        finally:
            self._open.discard(id(node))

    def _of_kind(self, node: Node, path: Path) -> Any:
        if isinstance(node, MappingNode) and node.tag == _TAG + "map":
            return self._mapping(node, path)
        if isinstance(node, SequenceNode) and node.tag == _TAG + "seq":
            return [self._value(item, (*path, index)) for index, item in enumerate(node.value)]
        if isinstance(node, ScalarNode) and node.tag in _SCALARS:
            return self._scalar(node, path)
        return self._refuse(path, f"the tag {node.tag.replace(_TAG, '!!')} is not accepted; remove it")

    def _scalar(self, node: ScalarNode, path: Path) -> Any:
        self._tree.written[path] = node.value
        try:
            return self._decode(node)
        except _UNREADABLE:
            return self._refuse(path, f"{node.value!r} cannot be read; put it in quotes if it is text")

    def _mapping(self, node: MappingNode, path: Path) -> dict[str, Any]:
        found: dict[str, Any] = {}
        merges = [value for key, value in node.value if key.tag == _MERGE]
        for key_node, value_node in node.value:
            if key_node.tag == _MERGE:
                continue
            key, line = self._key(key_node, path), key_node.start_mark.line + 1
            if key in found:
                first = self._tree.lines[*path, key]
                sentence = f"the key is given twice, first on line {first}"
                self._tree.faults.append(Fault(line, path_text((*path, key)), sentence))
                continue
            self._tree.lines[*path, key] = line
            found[key] = self._value(value_node, (*path, key))
        for source in (source for merge in merges for source in self._merge_sources(merge, path)):
            self._merge(source, path, found)
        return found

    def _merge(self, source: MappingNode, path: Path, found: dict[str, Any]) -> None:
        """Add what `<<` brings, where the mapping does not say it itself; the first source wins."""
        for key_node, value_node in source.value:
            if key_node.tag == _MERGE:
                for inner in self._merge_sources(value_node, path):
                    self._merge(inner, path, found)
            elif (key := self._key(key_node, path)) not in found:
                self._tree.lines[*path, key] = key_node.start_mark.line + 1
                found[key] = self._value(value_node, (*path, key))

    def _merge_sources(self, node: Node, path: Path) -> list[MappingNode]:
        sources = node.value if isinstance(node, SequenceNode) else [node]
        if all(isinstance(source, MappingNode) for source in sources):
            return list(sources)
        line = node.start_mark.line + 1
        self._tree.faults.append(Fault(line, path_text(path), "<< takes a mapping or a list of mappings"))
        return []

    def _key(self, node: Node, path: Path) -> str:
        if isinstance(node, ScalarNode) and node.tag in _SCALARS:
            with contextlib.suppress(*_UNREADABLE):
                key = self._decode(node)
                if isinstance(key, str):
                    return key
        written = node.value if isinstance(node, ScalarNode) else "(a list or mapping)"
        at = node.start_mark.line + 1
        sentence = f"the key {written} is not text; put it in quotes"
        self._tree.faults.append(Fault(at, path_text(path), sentence))
        return str(written)

    def _refuse(self, path: Path, sentence: str) -> None:
        self._tree.faults.append(self._tree.fault(path, sentence))
