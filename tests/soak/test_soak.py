"""Nothing that changes in the gateway costs a request, is refused by Envoy, or stays unanswered.

Operators and agents change what is in Redis; clusters come and go with the file alone, so that is played upon the cache.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.soak.change import MOST_UNACKED_MS, Soak
from tests.soak.live import Live
from tests.soak.through_redis import CLUSTERS, RedisSoak
from tests.xds.conftest import Gateway
from tidegate.store.redis import RedisStore

pytestmark = [pytest.mark.envoy, pytest.mark.redis]


async def soaked(gateway: Gateway, engines: Any, seconds: float) -> None:
    soak = Soak(gateway, await engines(4), random.Random(7))
    await soak.run(seconds)
    assert set(soak.outcomes) == {"200"}, soak.outcomes
    assert soak.nacks == []
    assert soak.oldest_unacked_ms < MOST_UNACKED_MS
    assert all(soak.steps[kind] for kind in ("add", "remove", "settings", "endpoints"))
    assert "error_state" not in (await gateway.admin("/config_dump?include_eds")).text


async def soaked_through_redis(live: Live, store: RedisStore, engines: Any, seconds: float) -> RedisSoak:
    await live.start([{"name": name, "models": [name], "lb": lb} for name, lb in CLUSTERS.items()])
    soak = RedisSoak(live, store, await engines(5), random.Random(7))
    await soak.run(seconds)
    assert set(soak.outcomes) == {"200"}, soak.outcomes
    assert soak.troubles == set()
    assert soak.oldest_unacked_ms < MOST_UNACKED_MS
    kinds = ("join", "leave", "state", "weight", "unpin", "drain", "undrain", "tune")
    assert all(soak.steps[kind] for kind in kinds), soak.steps
    return soak


async def test_clusters_come_and_go_under_traffic(gateway: Gateway, engines: Any) -> None:
    await soaked(gateway, engines, 6)


async def test_redis_steers_at_random_under_traffic(live: Live, store: RedisStore, engines: Any) -> None:
    await soaked_through_redis(live, store, engines, 8)


@pytest.mark.soak
@pytest.mark.timeout(400)
async def test_three_minutes_of_clusters_that_come_and_go(gateway: Gateway, engines: Any) -> None:
    await soaked(gateway, engines, 180)


@pytest.mark.soak
@pytest.mark.timeout(400)
async def test_three_minutes_of_change_at_random_through_redis(live: Live, store: RedisStore, engines: Any) -> None:
    await soaked_through_redis(live, store, engines, 180)
