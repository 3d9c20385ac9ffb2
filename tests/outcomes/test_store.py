"""Reports in both stores."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from tests.conftest import until
from tests.outcomes.entries import outcome
from tidegate.domain.outcomes.ending import Ending
from tidegate.domain.outcomes.report import Report
from tidegate.domain.outcomes.slo import Counts, Spans
from tidegate.domain.outcomes.tally import Tally
from tidegate.runtime import now_ms
from tidegate.store.memory import MemoryStore
from tidegate.store.redis import RedisStore

pytestmark = pytest.mark.redis


def report(count: int) -> Report:
    tally = Tally()
    for number in range(count):
        tally.add(outcome(total_ms=10.0 + number))
    told = tally.told(60_000, tally.counts)
    return Report({"chat": {"a:1": told, "b:1": told}, "more": {"": told}}, {"m": Spans(Counts(served=count))})


@pytest.fixture(params=["memory", "redis"])
async def store(request: Any, redis_url: str) -> AsyncIterator[Any]:
    one = MemoryStore(now_ms) if request.param == "memory" else RedisStore(redis_url, timeout_seconds=60)
    yield one
    await one.close()


async def test_what_each_instance_told_last_is_read_by_cluster_and_model(store: Any) -> None:
    await store.tell_outcomes("one", report(3), ttl_ms=60_000)
    await store.tell_outcomes("one", report(4), ttl_ms=60_000)
    await store.tell_outcomes("two", report(5), ttl_ms=60_000)
    told = await store.outcomes(["chat", "nobody"], ["m", "n"])
    counts = sorted(one.clusters["chat"]["b:1"].counts[Ending.SERVED.place] for one in told)
    assert (counts, sorted(one.models["m"].short.served for one in told)) == ([4, 5], [4, 5])
    assert [(set(one.clusters), set(one.models)) for one in told] == [({"chat"}, {"m"})] * 2
    assert await store.outcomes([]) == []


async def test_an_instance_that_went_silent_is_forgotten(store: Any) -> None:
    await store.tell_outcomes("one", report(3), ttl_ms=1)

    async def forgotten() -> bool:
        return not any(one.clusters for one in await store.outcomes(["chat"]))

    await until(forgotten, what="the silent one forgotten")


async def test_garbage_is_left_out(redis_url: str, redis_cli: Callable[..., str]) -> None:
    store = RedisStore(redis_url, timeout_seconds=60)
    try:
        await store.tell_outcomes("one", report(3), ttl_ms=60_000)
        redis_cli("HSET", "tidegate:outcomes:one", "cluster:chat", "garbage")
        redis_cli("HSET", "tidegate:outcomes:one", "cluster:short", "\x80")
        redis_cli("ZADD", "tidegate:outcomes", "1", "two")
        redis_cli("SET", "tidegate:outcomes:two", "no hash")
        (told,) = await store.outcomes(["chat", "more"])
        assert list(told.clusters) == ["more"]
    finally:
        await store.close()
