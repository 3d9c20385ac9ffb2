"""Whose turn it is among equals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tidegate.domain.pick.replica import Replica

_GOLDEN: Final = 0.6180339887498949


class Turns:
    """Of equals, the one that was picked least recently here: they take turns exactly, whichever places they have.

    Those that were never picked come first, in an order of this process's own: several processes that each have a
    few requests more than turns would else give all of them to the same replicas.
    """

    def __init__(self) -> None:
        self._start = 0.0
        self._count = 0
        self._last: dict[int, float] = {}

    def begin(self, start: float) -> None:
        """`start`, 0 to 1, is this process's place among all: what was picked before is forgotten."""
        self._start = start
        self._last.clear()

    def least(self, totals: list[float], tolerance: float, replicas: Sequence[Replica]) -> int:
        """The place of the least total; one of those within `tolerance` of it. `replicas` run along."""
        bound = min(totals) + tolerance
        equals = [at for at, total in enumerate(totals) if total <= bound]
        first = equals[0] if len(equals) == 1 else min(equals, key=lambda at: self._picked(replicas[at].slot))
        self._count += 1
        self._last[replicas[first].slot] = self._count
        return first

    def _picked(self, slot: int) -> float:
        """When a slot was picked last; below 0 for never."""
        last = self._last.get(slot)
        return (slot * _GOLDEN + self._start) % 1.0 - 1.0 if last is None else last
