"""Which sequences want attention at which step."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Final

from simulator.engine.request import Sequence

NEVER: Final = 1 << 62
"""A step that no engine reaches."""


class Schedule:
    """Sequences by step number. An entry whose sequence has ended stays until its step: the reader checks."""

    __slots__ = ("_at", "_steps")

    def __init__(self) -> None:
        self._at: dict[int, list[Sequence]] = {}
        self._steps: list[int] = []

    def add(self, step: int, sequence: Sequence) -> None:
        """`sequence` wants attention at `step`."""
        here = self._at.get(step)
        if here is None:
            self._at[step] = [sequence]
            heappush(self._steps, step)
        else:
            here.append(sequence)

    def pop(self, step: int) -> list[Sequence]:
        """Who wanted attention at `step`, in the order of asking; each is told once."""
        return self._at.pop(step, [])

    def next_after(self, step: int) -> int:
        """The next step with an entry, above `step`; NEVER when there is none. Forgets what lies before it."""
        while self._steps and self._steps[0] <= step:
            self._at.pop(heappop(self._steps), None)
        return self._steps[0] if self._steps else NEVER
