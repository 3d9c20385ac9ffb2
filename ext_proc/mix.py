"""Which classes of requests each replica got in the last minute: what the controller makes the load index's mix of.

Known where ext_proc names the replica, in `pick` clusters. Several instances tell their parts; the controller adds
them up.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final

from tidegate.domain.entropy import SPAN_SECONDS, class_of
from tidegate.domain.request import RequestInfo
from tidegate.store.ports import Mixes

SLOT_MS: Final = 5_000
SLOTS: Final = SPAN_SECONDS * 1000 // SLOT_MS
TELL_SECONDS: Final = 1.0
TTL_MS: Final = 5_000
"""How long the controller counts what an instance told that has gone silent since."""

Place = tuple[str, str]
Counts = dict[Place, dict[int, int]]


class MixBook:
    """Counts by cluster, address and class, in slots of 5 s. `clock` gives Unix milliseconds. One event loop's."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock
        self._slots: deque[tuple[int, Counts]] = deque()

    def dispatched(self, cluster: str, address: str, info: RequestInfo) -> None:
        """A request went there."""
        counts = self._current().setdefault((cluster, address), {})
        bucket = class_of(info)
        counts[bucket] = counts.get(bucket, 0) + 1

    def counts(self) -> dict[str, dict[str, dict[int, int]]]:
        """Of the last minute: cluster → address → class → requests."""
        self._expire(self._number())
        total: dict[str, dict[str, dict[int, int]]] = {}
        for (cluster, address), counts in self._of_all_slots():
            there = total.setdefault(cluster, {}).setdefault(address, {})
            for bucket, count in counts.items():
                there[bucket] = there.get(bucket, 0) + count
        return total

    async def tell(self, store: Mixes, instance: str) -> None:
        """Tell the controller each second, until cancelled. Raises StoreError."""
        while True:
            await store.tell_mix(instance, self.counts(), ttl_ms=TTL_MS)
            await asyncio.sleep(TELL_SECONDS)

    def _current(self) -> Counts:
        number = self._number()
        if not self._slots or self._slots[-1][0] != number:
            self._expire(number)
            self._slots.append((number, {}))
        return self._slots[-1][1]

    def _number(self) -> int:
        return self._clock() // SLOT_MS

    def _expire(self, number: int) -> None:
        while self._slots and not number - SLOTS < self._slots[0][0] <= number:
            self._slots.popleft()

    def _of_all_slots(self) -> Iterable[tuple[Place, dict[int, int]]]:
        return ((place, counts) for _, slot in self._slots for place, counts in slot.items())
