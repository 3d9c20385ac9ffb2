"""The loop: it outlives its store, and plain redis-cli steers it."""

from __future__ import annotations

import asyncio
import contextlib

import pytest
from prometheus_client import CollectorRegistry

from controller.loop import run
from tests.conftest import until
from tests.controller.world import TOPOLOGY, A, B, Clock, tick
from tidegate.runtime import now_ms
from tidegate.store.memory import MemoryStore
from tidegate.store.redis import RedisStore


@contextlib.asynccontextmanager
async def running(store, **options):
    task = asyncio.create_task(run(store, TOPOLOGY, tick_ms=20, instance="test", **options))
    try:
        yield task
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def test_loop_outlives_an_unavailable_store_and_resumes():
    clock = Clock()
    store, registry = MemoryStore(clock), CollectorRegistry()

    def errors():
        return registry.get_sample_value("tidegate_controller_store_errors_total")

    async with running(store, clock=clock, registry=registry) as task:
        await until(lambda: bool(registry.get_sample_value("tidegate_controller_decisions_written_total")))
        store.available = False
        await until(lambda: errors() >= 2)
        store.available = True
        await store.set_field("weight:phi-3", A, "5")

        async def applied():
            return (await store.effective(["phi-3"]))["phi-3"].get(A) == 5

        await until(applied)
        assert not task.done()


async def test_stopped_loop_leaves_and_may_run_again_on_the_same_registry():
    clock = Clock()
    store, registry = MemoryStore(clock), CollectorRegistry()
    for _ in range(2):
        async with running(store, clock=clock, registry=registry):
            await until(
                lambda: bool(registry.get_sample_value("tidegate_controller_decisions_written_total")) or store._beats
            )
        assert await store.present() == {}


async def keep_publishing(store):
    while True:
        with contextlib.suppress(Exception):
            await store.publish(tick(now_ms(), a=0.4, b=0.75, seq=now_ms()), ttl_ms=3000)
        await asyncio.sleep(0.1)


@pytest.fixture
async def redis_store(own_redis):
    store = RedisStore(own_redis.url, timeout_seconds=60)
    yield store
    await store.close()


@pytest.fixture
async def steered(redis_store):
    """A running loop with an agent that publishes, on a Redis of this test's own."""
    async with running(redis_store):
        agent = asyncio.create_task(keep_publishing(redis_store))
        yield
        agent.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await agent


@pytest.mark.redis
async def test_plain_redis_cli_steers_weights(own_redis, steered):
    def effective(address):
        return own_redis.cli("HGET", "tidegate:effective:phi-3", address)

    await until(lambda: effective(A) == "600", what="automatic weight")
    own_redis.cli("HSET", "tidegate:weight:phi-3", A, "100")
    await until(lambda: effective(A) == "100", what="pin")
    own_redis.cli("HSET", "tidegate:weight:phi-3", A, "banana")
    await until(lambda: "banana" in own_redis.cli("HGETALL", "tidegate:rejected"), what="refusal")
    assert effective(A) == "100"
    own_redis.cli("HDEL", "tidegate:weight:phi-3", A)
    await until(lambda: effective(A) == "600", what="automatic weight again")
    assert own_redis.cli("EXISTS", "tidegate:rejected") == "0"
    own_redis.cli("HSET", "tidegate:drain:phi-3", B, "disk")
    await until(lambda: effective(B) == "0", what="drain")
    assert "drain:phi-3" in own_redis.cli("XREVRANGE", "tidegate:events", "+", "-")


@pytest.mark.redis
async def test_loop_writes_its_weights_into_a_redis_that_came_back_empty(own_redis, steered):
    def effective(address):
        return own_redis.cli("HGET", "tidegate:effective:phi-3", address)

    await until(lambda: effective(A) == "600")
    own_redis.stop()
    own_redis.start()
    await until(lambda: effective(A) == "600", what="weight after the restart")
