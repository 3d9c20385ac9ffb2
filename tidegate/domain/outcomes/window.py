"""A sliding window over tallies: twelve slots of 5 s and the one that is filling."""

from __future__ import annotations

from collections import deque
from typing import Final

from tidegate.domain.outcomes.ending import Outcome
from tidegate.domain.outcomes.tally import Tally, merged

SLOT_MS: Final = 5_000
SLOTS: Final = 12
"""Full ones beside the one that fills: the window is 60 to 65 s long."""


class Window:
    """The requests of the last minute. Times are milliseconds of one clock that never goes back."""

    __slots__ = ("_began_ms", "_closed", "_filling", "_number", "_sum")

    def __init__(self, now_ms: int) -> None:
        self._began_ms = now_ms
        self._number = now_ms // SLOT_MS
        self._filling = Tally()
        self._closed: deque[tuple[int, Tally]] = deque()
        self._sum = Tally()

    def add(self, outcome: Outcome, now_ms: int) -> None:
        """Count a request that ended at this moment."""
        self._turn(now_ms // SLOT_MS)
        self._filling.add(outcome)

    def tally(self, now_ms: int) -> Tally:
        """What the window holds, as a tally of its own."""
        self._turn(now_ms // SLOT_MS)
        return merged((self._sum, self._filling))

    def span_ms(self, now_ms: int) -> int:
        """How long the window is, at least 1."""
        first_ms = (now_ms // SLOT_MS - SLOTS) * SLOT_MS
        return max(1, now_ms - max(self._began_ms, first_ms))

    def _turn(self, number: int) -> None:
        """Slots are merged when one closes, and not each time that somebody asks."""
        if number == self._number:
            return
        if any(self._filling.counts):
            self._closed.append((self._number, self._filling))
            self._filling = Tally()
        while self._closed and self._closed[0][0] < number - SLOTS:
            self._closed.popleft()
        self._number = number
        self._sum = merged(tally for _, tally in self._closed)
