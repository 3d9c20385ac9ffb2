"""Which class a request belongs to, and how urgent it is."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from tidegate.domain.matching import Asked, holds
from tidegate.domain.routing import RouteMatch

WORDS: Final = {"high": -100, "normal": 0, "low": 100}
"""What may stand in place of a number. A lower number is served earlier, as vLLM's `priority` is."""
MOST_URGENT: Final = -(2**31)
LEAST_URGENT: Final = 2**31 - 1
_WHOLE: Final = re.compile(r"[+-]?[0-9]{1,10}", re.ASCII)


class Band(StrEnum):
    """Priorities as metrics and status group them: below 0, 0, above 0."""

    HIGH = "high"
    NORMAL = "normal"
    LOW = "low"

    __hash__ = str.__hash__  # that of Enum is written in Python


@dataclass(frozen=True, slots=True)
class RequestClass:
    """Requests that share a queue by `weight` with those of other classes of the same priority.

    `priority` is that of a request which says none itself; `weight` is above 0.
    """

    name: str
    match: RouteMatch = field(default_factory=RouteMatch)
    priority: int = 0
    weight: float = 1.0


DEFAULT_NAME: Final = "default"
DEFAULT: Final = RequestClass(DEFAULT_NAME)


class Classes:
    """The classes of the file, in its order; the first whose conditions hold is a request's class.

    One that is called `default` holds what no other does; without it, weight 1 and priority 0.
    """

    def __init__(self, classes: Sequence[RequestClass] = (), *, by_header: bool = False) -> None:
        self._named = {one.name: one for one in classes}
        self._default = self._named.setdefault(DEFAULT_NAME, DEFAULT)
        self._matched = tuple(one for one in classes if one.name != DEFAULT_NAME)
        self._by_header = by_header

    @property
    def only(self) -> RequestClass | None:
        """The class of every request, where neither what is asked nor a header decides."""
        return None if self._matched or (self._by_header and len(self._named) > 1) else self._default

    @property
    def names(self) -> tuple[str, ...]:
        """Every class, the default among them."""
        return tuple(self._named)

    def of(self, asked: Asked, named: str | None) -> RequestClass:
        """The class that the header names, where the file allows that and it exists; else the first that matches."""
        if self._by_header and named is not None and named in self._named:
            return self._named[named]
        return next((one for one in self._matched if holds(one.match, asked)), self._default)


def priority_of(header: str | None, of_body: int, of_class: int) -> int:
    """The header's priority, else that of the body, else that of the class.

    A header that is neither a whole number nor one of WORDS says nothing, and neither does a body that says 0.
    """
    said = _said(header) if header is not None else None
    if said is None:
        said = of_body or of_class
    return min(max(said, MOST_URGENT), LEAST_URGENT)


def _said(header: str) -> int | None:
    text = header.strip().lower()
    if text in WORDS:
        return WORDS[text]
    return int(text) if _WHOLE.fullmatch(text) else None


def band(priority: int) -> Band:
    """The band of a priority."""
    if priority == 0:
        return Band.NORMAL
    return Band.HIGH if priority < 0 else Band.LOW
