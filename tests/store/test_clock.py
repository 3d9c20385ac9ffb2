"""The store's time, reckoned from a clock that is wrong."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field

import pytest

from tests.conftest import RedisServer, until
from tidegate.domain.errors import StoreUnavailable
from tidegate.store.clock import Estimate, StoreClock, estimate
from tidegate.store.redis import RedisStore

START_MS = 1_700_000_000_000


@dataclass
class World:
    """A store whose clock is `ahead_ms` ahead of ours; each question takes the next of `trips` (ms there, ms back)."""

    ahead_ms: float = 0.0
    trips: list[tuple[float, float]] = field(default_factory=list)
    passed_ms: float = 0.0
    away: bool = False

    async def time_ms(self) -> float:
        if self.away:
            raise StoreUnavailable("away")
        there, back = self.trips.pop(0) if self.trips else (1.0, 1.0)
        self.passed_ms += there
        said = START_MS + self.passed_ms + self.ahead_ms
        self.passed_ms += back
        return said

    def clock(self) -> StoreClock:
        return StoreClock(
            self, wall_seconds=lambda: START_MS / 1000 + self.passed_ms / 1000, monotonic=lambda: self.passed_ms / 1000
        )


def test_estimate_takes_the_middle_of_the_round_trip() -> None:
    assert Estimate(ahead_ms=95.0, round_trip_ms=10.0) == estimate(100.0, 200.0, 110.0)


@pytest.mark.parametrize("ahead_ms", [0, 7_200_000, -7_200_000])
async def test_a_wrong_clock_is_corrected(ahead_ms: float) -> None:
    world = World(ahead_ms)
    clock = world.clock()
    await clock.measure()
    assert clock() == pytest.approx(START_MS + world.passed_ms + ahead_ms, abs=1)
    assert clock.translated(clock.local()) == clock()


async def test_the_quickest_answer_is_believed() -> None:
    world = World(1000.0, trips=[(300, 0), (0, 80), (2, 1), (90, 10), (0, 500)])
    clock = world.clock()
    await clock.measure()
    assert clock.measured == Estimate(pytest.approx(1000.5), pytest.approx(3.0))


async def test_before_the_first_answer_our_own_clock_counts() -> None:
    assert World(5000.0).clock()() == START_MS


async def test_a_slow_answer_that_agrees_does_not_shake_the_clock() -> None:
    world = World(1000.0)
    clock = world.clock()
    await clock.measure()
    first = clock.measured
    world.trips = [(400, 0)] * 5
    await clock.measure()
    assert first == clock.measured


async def test_a_step_of_the_stores_clock_is_followed() -> None:
    world = World(1000.0)
    clock = world.clock()
    await clock.measure()
    world.ahead_ms = -60_000.0
    await clock.measure()
    assert clock() == pytest.approx(START_MS + world.passed_ms - 60_000, abs=1)


async def test_a_lost_store_leaves_the_last_estimate() -> None:
    world = World(1000.0)
    clock = world.clock()
    await clock.measure()
    world.away = True
    with pytest.raises(StoreUnavailable):
        await clock.measure()
    assert clock() == pytest.approx(START_MS + world.passed_ms + 1000, abs=1)


@pytest.mark.redis
async def test_a_clock_an_hour_slow_reads_what_redis_says(own_redis: RedisServer) -> None:
    store = RedisStore(own_redis.url, timeout_seconds=60)
    clock = StoreClock(store, wall_seconds=lambda: time.time() - 3600)
    keeper = asyncio.create_task(clock.run())
    try:
        await until(lambda: clock.measured, what="measured")
        off = clock() - await store.time_ms()
        assert abs(off) < 1800_000  # an hour without the correction
        assert clock.measured is not None
        assert abs(clock.measured.ahead_ms - 3_600_000) <= clock.measured.round_trip_ms / 2 + 50
    finally:
        keeper.cancel()
        await store.close()
