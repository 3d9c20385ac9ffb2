"""Turns of keys in proportion to weights: start-time fair queueing.

Each key with something to serve has a virtual start. The least one is served next, and moves on by cost ÷ weight; the
virtual time is the start of what was served last. A key that comes back starts at the virtual time, or where it had
got to if that is later, so that pauses earn nothing. Over any stretch in which two keys both have work, what they are
served per weight differs by at most one request of each. Goyal, Vin, Cheng: Start-time Fair Queueing, SIGCOMM 1996.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import Final

MOST_REMEMBERED: Final = 2048
"""Keys without work of which it is remembered how far they got."""


class Turns:
    """Equal starts are served in the order in which they came about. Keys are few to thousands: moves are O(log n)
    comparisons and one shift of a list."""

    def __init__(self) -> None:
        self.virtual = 0.0
        self._order: list[tuple[float, int, str]] = []
        self._at: dict[str, tuple[float, int, str]] = {}
        self._idle: dict[str, float] = {}
        self._moves = 0

    def __len__(self) -> int:
        return len(self._order)

    @property
    def first(self) -> str:
        """The key whose turn it is. Raises IndexError when there is none."""
        return self._order[0][2]

    def start(self, key: str) -> float:
        """The virtual start of a key that has work."""
        return self._at[key][0]

    def join(self, key: str) -> None:
        """The key has work. One that had some already keeps its turn."""
        if key not in self._at:
            self._put(key, max(self.virtual, self._idle.pop(key, 0.0)))

    def leave(self, key: str) -> None:
        """The key has no more work."""
        self._idle[key] = self._take(key)
        if len(self._idle) > MOST_REMEMBERED:
            self._forget()

    def move(self, key: str, by: float) -> None:
        """The key, which has work, is charged."""
        self._put(key, self._take(key) + by)

    def back(self, key: str, by: float) -> None:
        """Undo a charge: as if it had not been this key's turn. The key has work again."""
        start = self._take(key) if key in self._at else self._idle.pop(key, self.virtual + by)
        self._put(key, start - by, first=True)

    def served(self, start: float) -> None:
        """What had this virtual start was served."""
        self.virtual = max(self.virtual, start)

    def _put(self, key: str, start: float, *, first: bool = False) -> None:
        self._moves += 1
        entry = (start, -self._moves if first else self._moves, key)
        self._at[key] = entry
        insort(self._order, entry)

    def _take(self, key: str) -> float:
        entry = self._at.pop(key)
        del self._order[bisect_left(self._order, entry)]
        return entry[0]

    def _forget(self) -> None:
        """Those that have nothing to make up for, then the oldest."""
        ahead = {key: start for key, start in self._idle.items() if start > self.virtual}
        self._idle = dict(list(ahead.items())[-MOST_REMEMBERED // 2 :])
