"""How long requests hold their KV cache, and so how soon a full replica has room.

    seconds until there is room = (need - free) ÷ (tokens in use ÷ mean stay)

A replica that is full of running requests frees its cache at the pace at which these end.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from tidegate.domain.pick.replica import Replica
from tidegate.domain.pick.settings import PickSettings
from tidegate.domain.sample import EndpointSample

WINDOW_MS: Final = 30_000.0
"""About how far back the mean looks."""
TOLD_SHARE: Final = 0.02
"""A told end's share in the mean."""


class Stay:
    """The mean time that requests of one cluster run, by what the engines count: running ÷ ends a second (Little).

    Where engines do not count ends, the ends that the caller tells stand in.
    """

    __slots__ = ("_at_ms", "_ends", "_running_ms", "_told_ms")

    def __init__(self) -> None:
        self._running_ms = self._ends = 0.0
        self._at_ms = -math.inf
        self._told_ms: float | None = None

    @property
    def mean_ms(self) -> float | None:
        """Milliseconds; None while nothing ended."""
        return self._running_ms / self._ends if self._ends >= 1 else self._told_ms

    def sampled(self, last: EndpointSample | None, sample: EndpointSample) -> None:
        """A replica's next sample."""
        if last is None or last.requests_finished_total is None or sample.requests_finished_total is None:
            return
        ends = sample.requests_finished_total - last.requests_finished_total
        took_ms = sample.sampled_at_ms - last.sampled_at_ms
        if ends < 0 or not 0 < took_ms <= WINDOW_MS:
            return
        if sample.sampled_at_ms > self._at_ms:
            fade = math.exp((self._at_ms - sample.sampled_at_ms) / WINDOW_MS)
            self._running_ms, self._ends, self._at_ms = self._running_ms * fade, self._ends * fade, sample.sampled_at_ms
        self._running_ms += took_ms * ((sample.running or 0) + (last.running or 0)) / 2
        self._ends += ends

    def ended(self, stay_ms: float) -> None:
        """A request that was prefilled ended after so long."""
        self._told_ms = stay_ms if self._told_ms is None else self._told_ms + TOLD_SHARE * (stay_ms - self._told_ms)

    def rooms(
        self, replicas: Sequence[Replica], demand: float, settings: PickSettings, spare_ratio: float = 0.0
    ) -> list[float] | None:
        """Seconds until each replica has room for `demand` × the safety factor; None when all have it.

        `spare_ratio` of its capacity has to stay free beside. Infinite where it will not: the demand exceeds the
        capacity, or nothing is known to end. A demand that no replica could ever hold is not held back: an engine's
        answer to it comes at once.
        """
        if demand > max((replica.capacity or math.inf) for replica in replicas):
            return None
        need = demand * settings.fit_safety
        if spare_ratio:
            needs = [need + spare_ratio * (replica.capacity or 0) for replica in replicas]
            return [self._room(one, demand, wants) for one, wants in zip(replicas, needs, strict=True)]
        if min([replica.free_kv for replica in replicas]) >= need:
            return None
        return [0.0 if replica.free_kv >= need else self._room(replica, demand, need) for replica in replicas]

    def _room(self, replica: Replica, demand: float, need: float) -> float:
        capacity = replica.capacity or 0
        if demand > capacity:
            return math.inf
        missing = min(need, capacity) - replica.free_kv
        if missing <= 0:
            return 0.0
        mean_ms = self.mean_ms
        if not mean_ms or not replica.context:
            return math.inf
        return missing / replica.context * mean_ms / 1000
