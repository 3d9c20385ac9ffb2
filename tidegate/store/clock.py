"""The store's time: the one clock by which every service writes and judges a sample's age.

Machines disagree about the time, by seconds where nobody looks after it; a sample is fresh for three. So agents
write `sampled_at_ms` in the store's time, and readers compare it with the store's time.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import structlog

from tidegate.domain.errors import StoreError
from tidegate.store.ports import TimeSource

ROUND_TRIPS: Final = 5
MEASURE_EVERY_SECONDS: Final = 5.0
RETRY_SECONDS: Final = 1.0
WORTH_SAYING_MS: Final = 500

log = structlog.get_logger("tidegate.clock")


@dataclass(frozen=True, slots=True)
class Estimate:
    """How far the store's clock is ahead of ours, off by at most half of `round_trip_ms`."""

    ahead_ms: float
    round_trip_ms: float

    def agrees_with(self, other: Estimate) -> bool:
        """Whether `other` lies within what this one cannot tell."""
        return abs(self.ahead_ms - other.ahead_ms) <= self.round_trip_ms / 2


def estimate(asked_ms: float, said_ms: float, answered_ms: float) -> Estimate:
    """Of one round trip: the store read its clock at some moment between, most likely in the middle (RFC 5905, 8)."""
    return Estimate(said_ms - (asked_ms + answered_ms) / 2, answered_ms - asked_ms)


class StoreClock:
    """Unix milliseconds by the store's clock; by this machine's until it is measured. Use from one event loop.

    Time between two measurements is counted by the monotonic clock, so that a step of this machine's wall clock
    moves nothing. Steps of the store's clock are followed within 5 s.
    """

    def __init__(
        self,
        source: TimeSource,
        *,
        wall_seconds: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._source, self._monotonic = source, monotonic
        self._origin_ms = (wall_seconds() - monotonic()) * 1000
        self.measured: Estimate | None = None

    def __call__(self) -> int:
        """The time, by the store's clock."""
        return round(self._local_ms() + (self.measured.ahead_ms if self.measured else 0.0))

    def local(self) -> int:
        """Unix milliseconds by this machine's clock as it was at the start; it never steps. See `translated`."""
        return round(self._local_ms())

    def translated(self, local_ms: int) -> int:
        """A time of `local` by the store's clock."""
        return local_ms + round(self.measured.ahead_ms if self.measured else 0.0)

    async def measure(self) -> None:
        """Ask a few times and believe the quickest answer. Raises StoreError.

        An answer that is less certain than the one in force and does not contradict it changes nothing: a busy
        store does not shake the clock.
        """
        best = min([await self._ask() for _ in range(ROUND_TRIPS)], key=lambda one: one.round_trip_ms)
        known = self.measured
        if known is not None and best.round_trip_ms >= known.round_trip_ms and best.agrees_with(known):
            return
        if abs(best.ahead_ms - (known.ahead_ms if known else 0.0)) >= WORTH_SAYING_MS:
            log.warning("this machine's clock differs from Redis'; corrected", ahead_ms=round(best.ahead_ms))
        self.measured = best

    async def run(self) -> None:
        """Measure every 5 s until cancelled; while the store is away, each second, and the last estimate stays."""
        while True:
            try:
                await self.measure()
            except StoreError:  # whoever needs the store says it
                await asyncio.sleep(RETRY_SECONDS)
            else:
                await asyncio.sleep(MEASURE_EVERY_SECONDS)

    async def _ask(self) -> Estimate:
        asked_ms = self._local_ms()
        said_ms = await self._source.time_ms()
        return estimate(asked_ms, said_ms, self._local_ms())

    def _local_ms(self) -> float:
        return self._origin_ms + self._monotonic() * 1000
