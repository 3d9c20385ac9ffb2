"""What operators tune while everything runs: one value of `tune` or `tune:{cluster}`, its type, range and meaning."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

_SHOWN_CHARACTERS: Final = 40
_WHOLE: Final = re.compile(r"[+-]?[0-9]{1,18}")
_DECIMAL: Final = re.compile(r"[+-]?([0-9]{1,300}(\.[0-9]{0,300})?|\.[0-9]{1,300})([eE][+-]?[0-9]{1,3})?")

Value = float | int | str | bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Tunable:
    """One field of `tune` (every cluster) and `tune:{cluster}` (that cluster alone).

    The type of `default` is that of the value. `least` and `most` bound a number; `choices` are the words of a text.
    `unit` is empty for a ratio, a count or a word. `per_cluster` is False for what only `tune` may hold.
    """

    name: str
    default: Value
    doc: str
    unit: str = ""
    least: float = 0.0
    most: float = math.inf
    choices: tuple[str, ...] = ()
    per_cluster: bool = True

    def read(self, text: str) -> Value:
        """The value that `text` stands for. Raises ValueError with half a sentence that says what would be right."""
        if isinstance(self.default, bool):
            return _flag(text)
        if self.choices:
            return self._choice(text)
        return self._number(text)

    def _choice(self, text: str) -> str:
        if text not in self.choices:
            raise ValueError(f"{_shown(text)} is none of {', '.join(self.choices)}")
        return text

    def _number(self, text: str) -> float | int:
        whole = isinstance(self.default, int)
        if not (_WHOLE if whole else _DECIMAL).fullmatch(text):
            raise ValueError(f"{_shown(text)} is no {'whole ' if whole else ''}number {self.range}")
        value = int(text) if whole else float(text)
        if not self.least <= value <= self.most or not math.isfinite(value):
            raise ValueError(f"{_shown(text)} is not {self.range}")
        return value

    @property
    def range(self) -> str:
        """What a value may be, as part of a sentence: `between 0 and 1`, `at least 1`, `true or false`."""
        if isinstance(self.default, bool):
            return "true or false"
        if self.choices:
            return " or ".join(self.choices)
        if math.isinf(self.most):
            return f"at least {plain(self.least)}"
        return f"between {plain(self.least)} and {plain(self.most)}"


def plain(value: Value) -> str:
    """A value as operators type it: 4294967295, 0.45, true."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
    return str(value)


def read_fields(
    tunables: Iterable[Tunable], fields: Mapping[str, str], last: Mapping[str, Value]
) -> tuple[dict[str, Value], dict[str, str]]:
    """The values that `fields` (name → text) sets, and why others are not accepted, by name.

    A bad value leaves that of `last`, the one in force before, where there was one. Names that `tunables` do not
    have are left to others.
    """
    values: dict[str, Value] = {}
    refused: dict[str, str] = {}
    for tunable in tunables:
        text = fields.get(tunable.name)
        if text is None:
            continue
        try:
            values[tunable.name] = tunable.read(text)
        except ValueError as exc:
            refused[tunable.name] = str(exc)
            if tunable.name in last:
                values[tunable.name] = last[tunable.name]
    return values, refused


def values_of(settings: Any, tunables: Iterable[Tunable], field_of: Mapping[str, str]) -> dict[str, Value]:
    """The values of a settings dataclass by tunable name; `field_of` maps names to its fields."""
    return {tunable.name: getattr(settings, field_of[tunable.name]) for tunable in tunables}


def _flag(text: str) -> bool:
    words = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}
    if text.lower() not in words:
        raise ValueError(f"{_shown(text)} is neither true nor false")
    return words[text.lower()]


def _shown(text: str) -> str:
    return repr(text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "…")
