"""Which replicas answer with nothing but faults, and are therefore left alone for a while.

A replica that answers 500 at once is idle whatever it is sent: whoever looks at load alone sends it everything. Envoy's
own ejection does not help a request for which ext_proc names the replica, so the same rule is applied to the naming.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

MOST_TIMES: Final = 6
"""The longest time aside is so many times the first."""


@dataclass(frozen=True, slots=True)
class Ends:
    """Requests of a replica that ended since some moment: faults, and answers that were none."""

    faults: int = 0
    answers: int = 0


class FaultWatch:
    """The replicas of one cluster. Belongs to one thread.

    `after` faults that no greater number of answers interrupted set a replica aside for `aside_ms`, twice as long the
    second time and so on up to MOST_TIMES; an answer ends the count. At most half of the open replicas are aside at
    once, those that were first. `after` 0 sets nothing aside.
    """

    def __init__(self, after: int, aside_ms: int) -> None:
        self._after, self._aside_ms = after, aside_ms
        self._last: dict[str, Ends] = {}
        self._faults: dict[str, int] = {}
        self._times: dict[str, int] = {}
        self._until_ms: dict[str, int] = {}

    def look(self, seen: Mapping[str, Ends], members: int, now_ms: int) -> frozenset[str]:
        """Who is aside, given counts that only rise (they fall when who counts ends) and how many replicas are open."""
        if not self._after:
            return frozenset()
        for address in self._last.keys() - seen.keys():
            for book in (self._last, self._faults, self._times, self._until_ms):
                book.pop(address, None)
        for address, ends in seen.items():
            self._count(address, ends, now_ms)
        aside = [address for address, until_ms in self._until_ms.items() if until_ms > now_ms]
        return frozenset(aside[: members // 2])

    def _count(self, address: str, ends: Ends, now_ms: int) -> None:
        last, self._last[address] = self._last.get(address), ends
        if last is None:
            return
        faults, answers = ends.faults - last.faults, ends.answers - last.answers
        if faults < 0 or answers < 0 or self._until_ms.get(address, 0) > now_ms:
            return
        if answers and answers >= faults:
            self._faults.pop(address, None)
            self._times.pop(address, None)
            return
        self._faults[address] = self._faults.get(address, 0) + faults
        if self._faults[address] >= self._after:
            self._faults.pop(address)
            times = self._times[address] = min(MOST_TIMES, self._times.get(address, 0) + 1)
            self._until_ms.pop(address, None)
            self._until_ms[address] = now_ms + times * self._aside_ms
