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

SHARE: Final = 0.02
"""A request's share in the mean stay, once some have ended."""


class Stay:
    """The mean time from dispatch to end, over the requests of one cluster."""

    __slots__ = ("_ended", "mean_ms")

    def __init__(self) -> None:
        self.mean_ms: float | None = None
        self._ended = 0

    def ended(self, stay_ms: float) -> None:
        """A request that was prefilled ended after so long."""
        self._ended += 1
        share = max(SHARE, 1 / self._ended)
        self.mean_ms = stay_ms if self.mean_ms is None else self.mean_ms + share * (stay_ms - self.mean_ms)

    def rooms(self, replicas: Sequence[Replica], demand: float, settings: PickSettings) -> list[float] | None:
        """Seconds until each replica has room for `demand` × the safety factor; None when all have it.

        Infinite where it will not: the demand exceeds the capacity, or nothing is known to end.
        """
        need = demand * settings.fit_safety
        if min(replica.free_kv for replica in replicas) >= need:
            return None
        return [0.0 if replica.free_kv >= need else self._room(replica, demand, need) for replica in replicas]

    def _room(self, replica: Replica, demand: float, need: float) -> float:
        capacity = replica.capacity or 0
        if demand > capacity:
            return math.inf
        missing = min(need, capacity) - replica.free_kv
        if missing <= 0:
            return 0.0
        if not self.mean_ms or not replica.context:
            return math.inf
        return missing / replica.context * self.mean_ms / 1000
