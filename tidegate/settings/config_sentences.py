"""What pydantic found, as sentences that say what to write instead."""

from __future__ import annotations

import difflib
import typing
from collections.abc import Callable, Iterable
from typing import Any, Final

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from tidegate.settings.config_model import LONG_FORM, SHORT_FORM, FileSection
from tidegate.settings.config_tree import Fault, Path, Tree

NO_KEYS: Final = ("[key]", SHORT_FORM, LONG_FORM)
"""Parts of a place that pydantic adds and that are not in the file."""


def faults_of(exc: ValidationError, tree: Tree, root: type[BaseModel] = FileSection) -> list[Fault]:
    """One fault for each thing wrong with a value of the file, whose shape is `root`."""
    return [_fault(error, tree, root) for error in exc.errors(include_url=False)]


def nearest(word: str, known: Iterable[str]) -> str:
    """`; did you mean 'x'?` when one of `known` is close to `word`, else `; known: a, b`."""
    known = list(known)
    close = difflib.get_close_matches(word, known, n=1)
    return f"; did you mean {close[0]!r}?" if close else f"; known: {', '.join(known) or 'none'}"


def _fault(error: ErrorDetails, tree: Tree, root: type[BaseModel]) -> Fault:
    path = tuple(part for part in error["loc"] if part not in NO_KEYS)
    if error["type"] == "missing":
        return Fault(tree.line(path[:-1]), tree.fault(path, "").path, "is missing")
    if error["type"] == "extra_forbidden":
        return tree.fault(path, f"unknown key{nearest(str(path[-1]), _known_keys(path[:-1], root))}")
    return tree.fault(path, _sentence(error, tree.written.get(path)))


def _sentence(error: ErrorDetails, written: str | None) -> str:
    value, context = error["input"], error.get("ctx", {})
    if error["type"] == "value_error":
        return str(context["error"])
    if value is None:
        return "has no value; give it one or remove the key"
    if error["type"] == "literal_error":
        return f"{value!r} is none of {context['expected'].replace(' or ', ', ')}".replace("'", "")
    if error["type"] in _BOUNDS:
        return f"{value} is {_BOUNDS[error['type']](context)}"
    if error["type"] == "too_short":
        return "is empty; it needs at least one entry"
    wanted = _WANTED.get(error["type"])
    return f"{_shown(value, written)} where {wanted}" if wanted else error["msg"]


_BOUNDS: Final[dict[str, Callable[[dict[str, Any]], str]]] = {
    "greater_than": lambda context: f"too small; it has to be more than {context['gt']}",
    "greater_than_equal": lambda context: f"too small; it has to be {context['ge']} or more",
    "less_than": lambda context: f"too large; it has to be less than {context['lt']}",
    "less_than_equal": lambda context: f"too large; it has to be {context['le']} or less",
}

_A_NUMBER: Final = "a whole number belongs; write it without quotes"
_WANTED: Final = {
    "string_type": "text belongs; put it in quotes",
    "int_type": _A_NUMBER,
    "int_from_float": _A_NUMBER,
    "bool_type": "true or false belongs",
    "list_type": "a list belongs; write [a, b]",
    "dict_type": "a mapping belongs; write {key: value}",
    "model_type": "a mapping belongs; write {key: value}",
    "model_attributes_type": "a mapping belongs; write {key: value}",
}


def _shown(value: Any, written: str | None) -> str:
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, str):
        return f"the text {value!r}"
    kind = "true or false" if isinstance(value, bool) else "a number" if isinstance(value, int | float) else "a date"
    return f"{written if written is not None else value} ({kind})"


def _known_keys(path: Path, root: type[BaseModel]) -> list[str]:
    """The keys that the section at `path` may have."""
    section = root
    for part in path:
        if isinstance(part, str) and part in section.model_fields:
            section = _section_in(section.model_fields[part].annotation) or section
    return list(section.model_fields)


def _section_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and not typing.get_args(annotation):
        return annotation if issubclass(annotation, BaseModel) else None
    inner = (_section_in(argument) for argument in typing.get_args(annotation))
    return next((found for found in inner if found is not None), None)
