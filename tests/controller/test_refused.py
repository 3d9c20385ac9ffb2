"""What a script that went wrong types holds nobody up."""

from __future__ import annotations

import pytest
import redis.asyncio as aioredis

from controller.controller import Controller
from controller.refused import MORE, MOST_TOLD, told
from tests.controller.world import TOPOLOGY, A
from tidegate.store.redis import RedisStore


def test_few_refusals_are_told_all():
    assert told({"tune x": "no"}) == {"tune x": "no"}


def test_of_many_refusals_the_first_are_told_and_how_many_more():
    refused = {f"tune {n:04}": "no" for n in range(MOST_TOLD + 5)}
    assert len(told(refused)) == MOST_TOLD + 1
    assert told(refused)[MORE].startswith("5 more")


@pytest.mark.parametrize("key", ["weight:phi-3", "drain:phi-3", "tune", "tune:phi-3"])
async def test_a_hash_of_twenty_thousand_fields_delays_no_order_and_fills_no_log(own_redis, key, monkeypatch):
    monkeypatch.setattr("controller.controller.LEASE_MS", 600_000)  # no stop of this process ends it
    store = RedisStore(own_redis.url, timeout_seconds=60)
    controller = Controller(store, TOPOLOGY)
    try:
        await controller.tick()
        async with aioredis.Redis.from_url(own_redis.url) as hand:
            await hand.hset(f"tidegate:{key}", mapping={f"x{n}": "1" for n in range(20_000)})
        await controller.tick()
        await store.set_field("weight:phi-3", A, "7")
        await controller.tick()
        assert (await store.effective(["phi-3"]))["phi-3"][A] == 7
        assert 0 < len(await store.rejected()) <= MOST_TOLD + 1
        assert len(await store.events(10_000)) < 1_000
    finally:
        await controller.resign()
        await store.close()
