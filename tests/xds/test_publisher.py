"""From the store to the cache, and what survives when the store does not."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import AsyncMock

import pytest
from envoy.config.endpoint.v3 import endpoint_pb2
from prometheus_client import CollectorRegistry

from tests.conftest import until
from tidegate.domain.errors import StoreUnavailable
from tidegate.domain.topology import Cluster, Endpoint, Topology
from tidegate.store.memory import MemoryStore
from tidegate.store.ports import ClusterDecision
from xds_server.cache import SnapshotCache
from xds_server.compose import Gateway
from xds_server.metrics import XdsMetrics
from xds_server.publisher import FIRST_LOOK_MS, REFILL_MS, Publisher
from xds_server.resolver import Resolver
from xds_server.type_urls import ENDPOINT
from xds_server.weights import LEAST_INTERVAL_MS, SETTLE_MS

GATEWAY = Gateway(
    listen_host="127.0.0.1",
    listen_port=10000,
    max_request_bytes=1000,
    expose_routing=False,
    ext_proc_host="127.0.0.1",
    ext_proc_port=18001,
)


@dataclass
class World:
    """A publisher over a store in memory and a clock that the test moves."""

    now_ms: int = 1_000_000
    gateway: Gateway = GATEWAY
    endpoints: tuple[Endpoint, ...] = (Endpoint("10.0.0.1:8000"), Endpoint("10.0.0.2:8000"))
    store: MemoryStore = field(init=False)
    cache: SnapshotCache = field(default_factory=SnapshotCache)
    registry: CollectorRegistry = field(default_factory=CollectorRegistry)
    publisher: Publisher = field(init=False)

    def __post_init__(self) -> None:
        self.store = MemoryStore(lambda: self.now_ms)
        self.publisher = Publisher(
            gateway=self.gateway,
            topology=Topology((Cluster("chat", ("phi-3",), endpoints=self.endpoints),)),
            store=self.store,
            cache=self.cache,
            metrics=XdsMetrics(self.registry),
            clock_ms=lambda: self.now_ms,
            sample_ttl_ms=3000,
            resolver=Resolver(),
        )

    async def decide(self, **weights: int) -> None:
        """`e1=7` gives the first endpoint weight 7."""
        effective = {f"10.0.0.{name[1:]}:8000": weight for name, weight in weights.items()}
        await self.store.write_decisions([ClusterDecision("chat", effective, {})], {}, [])

    def weights(self) -> list[int]:
        assert self.cache.snapshot is not None
        assignment: Any = endpoint_pb2.ClusterLoadAssignment()
        self.cache.snapshot.resources(ENDPOINT)["chat"].body.Unpack(assignment)
        return [e.load_balancing_weight.value for e in assignment.endpoints[0].lb_endpoints]


@pytest.fixture
def world() -> World:
    return World()


async def test_a_decided_weight_is_served(world: World) -> None:
    await world.decide(e1=100, e2=900)
    assert await world.publisher.tick() is None
    assert world.weights() == [100, 900]


async def test_a_look_that_finds_nothing_changed_serves_the_same_object(world: World) -> None:
    await world.publisher.tick()
    before = world.cache.snapshot
    await world.publisher.tick()
    assert world.cache.snapshot is before


async def test_a_small_change_waits_until_it_has_settled(world: World) -> None:
    await world.decide(e1=500, e2=500)
    await world.publisher.tick()
    await world.decide(e1=505, e2=500)
    world.now_ms += SETTLE_MS - 1
    await world.publisher.tick()
    assert world.weights() == [500, 500]
    world.now_ms += 1
    await world.publisher.tick()
    assert world.weights() == [505, 500]


async def test_what_an_operator_typed_is_served_at_a_word_and_no_sample_is_read(world: World) -> None:
    await world.decide(e1=500, e2=500)
    await world.publisher.tick()
    world.now_ms += LEAST_INTERVAL_MS
    await world.decide(e1=505, e2=500)
    await world.store.set_field("tune:chat", "envoy.retries", "4")
    read = world.store.samples = AsyncMock()  # type: ignore[method-assign]
    assert await world.publisher.look_at_orders() is None
    assert world.weights() == [505, 500]
    assert world.publisher.desired is not None
    assert world.publisher.desired.clusters[0].upstream.retries == 4
    read.assert_not_called()


async def test_an_emptied_store_orders_nothing(world: World) -> None:
    await world.decide(e1=7, e2=500)
    await world.publisher.tick()
    world.publisher._store = MemoryStore(lambda: world.now_ms)
    world.now_ms += LEAST_INTERVAL_MS
    assert await world.publisher.look_at_orders() is None
    assert world.weights() == [7, 500]


async def test_a_word_ends_the_wait_for_the_next_look(world: World) -> None:
    await world.decide(e1=500, e2=500)
    running = asyncio.create_task(world.publisher.run(tick_ms=3_600_000))
    await until(lambda: world.store._nudged and world.cache.snapshot, what="a publisher that waits")
    world.now_ms += LEAST_INTERVAL_MS
    await world.decide(e1=3, e2=500)
    await world.store.nudge()
    await until(lambda: world.weights() == [3, 500], what="the weight served")
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_what_was_held_back_is_served_when_it_is_due(world: World) -> None:
    await world.decide(e1=500, e2=500)
    running = asyncio.create_task(world.publisher.run(tick_ms=3_600_000))
    await until(lambda: world.store._nudged and world.cache.snapshot, what="a publisher that waits")
    await world.decide(e1=3, e2=500)
    await world.store.nudge()
    await until(lambda: world.publisher._held_ms, what="the weight being held back")
    assert world.weights() == [500, 500]
    world.now_ms += LEAST_INTERVAL_MS
    await until(lambda: world.weights() == [3, 500], what="the weight served")
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_a_word_from_a_store_that_fails_changes_nothing(world: World) -> None:
    await world.decide(e1=500, e2=500)
    await world.publisher.tick()
    world.store.available = False
    assert isinstance(await world.publisher.look_at_orders(), StoreUnavailable)
    assert world.publisher.trouble is not None
    assert world.weights() == [500, 500]


async def test_fact_11_a_lost_store_changes_nothing(world: World) -> None:
    await world.decide(e1=100, e2=900)
    await world.publisher.tick()
    before = world.cache.snapshot
    world.store.available = False
    world.now_ms += 3_600_000
    assert isinstance(await world.publisher.tick(), StoreUnavailable)
    assert world.publisher.trouble is not None
    assert world.cache.snapshot is before


async def test_a_store_that_comes_back_is_followed(world: World) -> None:
    await world.publisher.tick()
    world.store.available = False
    await world.publisher.tick()
    world.store.available = True
    world.now_ms += 1000
    await world.decide(e1=3, e2=4)
    await world.publisher.tick()
    assert (world.weights(), world.publisher.trouble) == ([3, 4], None)


async def test_a_start_without_store_waits_and_then_serves_the_file(world: World) -> None:
    world.store.available = False
    await world.publisher.tick()
    assert world.cache.snapshot is None
    world.now_ms += FIRST_LOOK_MS
    await world.publisher.tick()
    assert world.weights() == [1, 1]


async def test_a_start_without_store_leaves_alone_who_holds_more_than_the_file(world: World) -> None:
    world.store.available = False
    world.publisher._clients_hold_state = lambda: True
    world.now_ms += 10 * FIRST_LOOK_MS
    await world.publisher.tick()
    assert world.cache.snapshot is None
    world.store.available = True
    await world.publisher.tick()
    assert world.weights() == [1, 1]


async def test_a_start_on_an_emptied_store_leaves_envoys_their_replicas_until_agents_had_time_to_say_theirs() -> None:
    world = World(endpoints=())
    world.publisher._clients_hold_state = lambda: True
    for wait_ms in (0, REFILL_MS - 1):
        world.now_ms += wait_ms
        await world.publisher.tick()
        assert world.cache.snapshot is None
    world.now_ms += 1
    await world.publisher.tick()
    assert world.cache.snapshot is not None


async def test_a_start_on_an_empty_store_serves_at_once_where_no_envoy_holds_anything() -> None:
    world = World(endpoints=())
    await world.publisher.tick()
    assert world.cache.snapshot is not None


async def test_a_setting_is_tuned_live_a_bad_one_is_refused_and_an_emptied_store_takes_none_back(world: World) -> None:
    await world.decide(e1=1)
    await world.store.set_field("tune", "envoy.retries", "4")
    await world.store.set_field("tune:chat", "envoy.balance", "least_request")
    await world.store.set_field("tune:chat", "envoy.retries", "many")
    await world.publisher.tick()
    assert world.publisher.desired is not None
    tuned = world.publisher.desired.clusters[0].upstream
    assert (tuned.balance, tuned.retries) == ("least_request", 4)
    await world.store.clear_field("tune:chat", "envoy.retries")
    await world.publisher.tick()
    assert world.publisher.desired.clusters[0].upstream.retries == 4
    world.publisher._store = MemoryStore(lambda: world.now_ms)
    await world.publisher.tick()
    assert world.publisher.desired.clusters[0].upstream.retries == 4


async def test_what_fails_the_check_is_not_served_and_is_said() -> None:
    world = World(gateway=Gateway(**{**_fields(GATEWAY), "listen_host": "no-ip"}))
    await world.publisher.tick()
    assert world.cache.snapshot is None
    assert "no-ip" in (world.publisher.refused or "")
    assert world.registry.get_sample_value("tidegate_xds_refused_snapshots_total") == 1


def _fields(gateway: Gateway) -> dict[str, Any]:
    return {name: getattr(gateway, name) for name in gateway.__slots__}
