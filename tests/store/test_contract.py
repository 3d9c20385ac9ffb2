"""What every store promises, asked of the one on a real Redis and of the one in memory."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

import pytest

from tests.conftest import until
from tests.store.samples import bare_endpoint, endpoint, tick
from tidegate.domain.errors import StoreUnavailable
from tidegate.store.memory import MemoryStore
from tidegate.store.ports import ClusterDecision, Event, RawOperatorKeys, Store
from tidegate.store.redis import RedisStore

LONG_MS = 600_000
SHORT_MS = 500
PATIENT_SECONDS = 60.0
_worlds = itertools.count()


@dataclass
class World:
    """A store, and a way to let its time pass."""

    store: Store
    pass_time: Callable[[], Any]
    readers: Callable[[], int]


@pytest.fixture(params=["redis", "memory"])
async def world(request: pytest.FixtureRequest) -> AsyncIterator[World]:
    if request.param == "memory":
        now = [1_700_000_000_000]
        memory = MemoryStore(lambda: now[0])
        yield World(memory, lambda: now.__setitem__(0, now[0] + SHORT_MS), lambda: len(memory._readers))
        return
    cli = request.getfixturevalue("redis_cli")
    prefix = f"contract-{next(_worlds)}"  # readers of the test before may be subscribed for a moment yet
    store = RedisStore(request.getfixturevalue("redis_url"), prefix, timeout_seconds=PATIENT_SECONDS)
    counted = lambda: int(cli("PUBSUB", "NUMSUB", f"{prefix}:samples").split()[-1])  # noqa: E731
    yield World(store, lambda: None, counted)
    await store.close()


async def expired(world: World, condition: Callable[[], Any]) -> None:
    """Wait until `condition` is true, with time passing."""
    world.pass_time()
    await until(condition, what="expiry")


@pytest.fixture
def store(world: World) -> Store:
    return world.store


async def test_a_published_sample_is_read_back_field_by_field(store: Store) -> None:
    known, bare = endpoint("10.0.0.5:8000"), bare_endpoint("[::1]:8001", cluster="qwen2.5-72b")
    await store.publish(tick(known, bare), ttl_ms=LONG_MS)
    assert {known.address: known, bare.address: bare} == {one.address: one for one in await store.samples()}
    assert [tick().node] == await store.nodes()


async def test_an_empty_store_answers_with_nothing(store: Store) -> None:
    assert [] == await store.samples() == await store.registered() == await store.nodes()
    assert {} == await store.rejected() == await store.present()
    assert await store.events(10) == []
    assert {"phi-3": {}} == await store.effective(["phi-3"]) == await store.explain(["phi-3"])


async def test_a_field_that_becomes_unknown_goes_away(store: Store) -> None:
    await store.publish(tick(endpoint()), ttl_ms=LONG_MS)
    await store.publish(tick(bare_endpoint()), ttl_ms=LONG_MS)
    assert [bare_endpoint()] == await store.samples()


async def test_an_expired_sample_stays_registered(world: World) -> None:
    store = world.store
    await store.publish(tick(endpoint()), ttl_ms=SHORT_MS)

    async def gone() -> bool:
        return not await store.samples() and not await store.nodes()

    await expired(world, gone)
    assert await store.registered() == [("phi-3", "10.0.0.5:8000", 1_700_000_000_000)]


async def test_what_is_gone_is_neither_sampled_nor_registered_but_departed(store: Store) -> None:
    kept, left = endpoint("10.0.0.5:8000"), endpoint("10.0.0.6:8000")
    await store.publish(tick(kept, left), ttl_ms=LONG_MS)
    assert set() == await store.departed()
    gone = (("phi-3", left.address), ("never", "seen:1"))
    await store.publish(tick(kept, at_ms=kept.sampled_at_ms + 1, gone=gone), ttl_ms=LONG_MS)
    assert [kept] == await store.samples()
    assert [("phi-3", kept.address, kept.sampled_at_ms)] == await store.registered()
    assert set(gone) == await store.departed()


async def test_what_comes_back_is_not_departed(store: Store) -> None:
    one = endpoint()
    place = (one.cluster, one.address)
    await store.publish(tick(at_ms=one.sampled_at_ms, gone=(place,)), ttl_ms=LONG_MS)
    back = endpoint(sampled_at_ms=one.sampled_at_ms + 1)
    await store.publish(tick(back), ttl_ms=LONG_MS)
    assert set() == await store.departed()
    assert [(*place, back.sampled_at_ms)] == await store.registered()


async def test_a_sample_from_before_the_departure_registers_nothing(store: Store) -> None:
    late = endpoint()
    place = (late.cluster, late.address)
    await store.publish(tick(at_ms=late.sampled_at_ms + 1, gone=(place,)), ttl_ms=LONG_MS)
    await store.publish(tick(late), ttl_ms=LONG_MS)
    assert ([], {place}) == (await store.registered(), await store.departed())
    assert await store.samples() == []


async def test_the_index_lists_the_oldest_first(store: Store) -> None:
    await store.publish(tick(endpoint("b:1", sampled_at_ms=2), endpoint("a:1", sampled_at_ms=3)), ttl_ms=LONG_MS)
    await store.publish(tick(endpoint("c:1", sampled_at_ms=1)), ttl_ms=LONG_MS)
    assert await store.registered() == [("phi-3", "c:1", 1), ("phi-3", "b:1", 2), ("phi-3", "a:1", 3)]


async def test_every_reader_gets_every_tick_in_order(world: World) -> None:
    async def read(count: int) -> list[int]:
        ticks = world.store.ticks()
        got = [(await anext(ticks)).endpoints[0].seq for _ in range(count)]
        await ticks.aclose()
        return got

    readers = [asyncio.create_task(read(20)) for _ in range(2)]
    await until(lambda: world.readers() == 2, what="both subscribed")
    for seq in range(20):
        await world.store.publish(tick(endpoint(seq=seq)), ttl_ms=LONG_MS)
    assert [list(range(20))] * 2 == await asyncio.wait_for(asyncio.gather(*readers), PATIENT_SECONDS)
    await until(lambda: world.readers() == 0, what="both unsubscribed")


async def test_a_tick_crosses_the_channel_unchanged(world: World) -> None:
    sent = tick(endpoint(), bare_endpoint("10.0.0.6:8000"))
    ticks = world.store.ticks()
    reader = asyncio.ensure_future(anext(ticks))
    await until(lambda: world.readers() == 1, what="subscribed")
    await world.store.publish(sent, ttl_ms=LONG_MS)
    assert sent == await asyncio.wait_for(reader, PATIENT_SECONDS)
    await ticks.aclose()


async def test_closing_ends_a_reader_with_an_error(world: World) -> None:
    reader = asyncio.ensure_future(anext(world.store.ticks()))
    await until(lambda: world.readers() == 1, what="subscribed")
    await world.store.close()
    with pytest.raises(StoreUnavailable):
        await asyncio.wait_for(reader, PATIENT_SECONDS)


async def test_operator_keys_are_read_by_cluster_scope_and_model(store: Store) -> None:
    await store.set_field("weight:phi-3", "10.0.0.5:8000", "100")
    await store.set_field("weight:other", "10.0.0.9:8000", "5")
    await store.set_field("drain:phi-3", "10.0.0.6:8000", "driver update")
    await store.set_field("tune", "fit.safety", "1.5")
    await store.set_field("tune:phi-3", "ewma.alpha", "banana")
    await store.set_field("split:org/model:v1", "qwen-stable", "990")
    keys = await store.operator_keys(["phi-3", "sdxl"], ["org/model:v1", "phi-3"])
    assert keys.weights == {"phi-3": {"10.0.0.5:8000": "100"}}
    assert keys.drains == {"phi-3": {"10.0.0.6:8000": "driver update"}}
    assert keys.tunes == {"": {"fit.safety": "1.5"}, "phi-3": {"ewma.alpha": "banana"}}
    assert keys.splits == {"org/model:v1": {"qwen-stable": "990"}}
    assert keys.broken == {}


async def test_clearing_says_whether_the_field_was_there(store: Store) -> None:
    await store.set_field("weight:phi-3", "10.0.0.5:8000", "0")
    assert await store.clear_field("weight:phi-3", "10.0.0.5:8000")
    assert not await store.clear_field("weight:phi-3", "10.0.0.5:8000")
    assert (await store.operator_keys(["phi-3"], [])).weights == {}


async def test_a_decision_replaces_its_clusters_and_no_other(store: Store) -> None:
    first = ClusterDecision("phi-3", {"a:1": 400, "b:1": 0}, {"a:1": {"load": 0.5, "pinned": None}, "b:1": {}})
    other = ClusterDecision("sdxl", {"c:1": 7}, {})
    await store.write_decisions([first, other], {"weight:phi-3": "banana is not a number"}, [])
    await store.write_decisions([ClusterDecision("phi-3", {"a:1": 500}, {"a:1": {"load": 0.4}})], {}, [])
    assert await store.effective(["phi-3", "sdxl"]) == {"phi-3": {"a:1": 500}, "sdxl": {"c:1": 7}}
    assert await store.explain(["phi-3", "sdxl"]) == {"phi-3": {"a:1": {"load": 0.4}}, "sdxl": {}}
    assert await store.rejected() == {}


async def test_restoring_writes_what_is_missing_and_nothing_else(store: Store) -> None:
    await store.publish(tick(endpoint(address="a:1")), ttl_ms=LONG_MS)
    [(_, _, at_ms)] = await store.registered()
    await store.set_field("weight:phi-3", "a:1", "2")
    kept = RawOperatorKeys(
        weights={"phi-3": {"a:1": "1", "b:1": "3"}}, tunes={"": {"ewma.alpha": "0.2"}}, splits={"m": {"x": "1000"}}
    )
    await store.restore(kept, {("phi-3", "a:1"): 5, ("phi-3", "b:1"): 7})
    assert await store.registered() == [("phi-3", "b:1", 7), ("phi-3", "a:1", at_ms)]
    found = await store.operator_keys(["phi-3"], ["m"])
    assert found.weights == {"phi-3": {"a:1": "2", "b:1": "3"}}
    assert (found.tunes, found.splits) == ({"": {"ewma.alpha": "0.2"}}, {"m": {"x": "1000"}})


async def test_what_was_rejected_is_replaced_as_a_whole(store: Store) -> None:
    await store.write_decisions([], {"weight:a": "x", "weight:b": "y"}, [])
    await store.write_decisions([], {"weight:b": "z"}, [])
    assert await store.rejected() == {"weight:b": "z"}


async def test_events_come_back_oldest_first_and_newest_only(store: Store) -> None:
    events = [Event(at_ms=at, who="controller", what="weight", before="1", after="", why="é") for at in range(5)]
    await store.write_decisions([], {}, events[:2])
    await store.write_decisions([], {}, events[2:])
    assert events == await store.events(100)
    assert events[3:] == await store.events(2)
    assert await store.events(0) == []


async def test_a_beat_is_present_until_it_expires(world: World) -> None:
    store = world.store
    await store.beat("xds", "a", {"port": 18000}, ttl_ms=LONG_MS)
    await store.beat("agent", "gpu-1:7", {}, ttl_ms=SHORT_MS)
    found = await store.present()
    assert found["xds"]["a"]["port"] == 18000
    assert found["xds"]["a"]["beat_at_ms"] >= 1_700_000_000_000

    async def gone() -> bool:
        return set(await store.present()) == {"xds"}

    await expired(world, gone)


async def test_who_leaves_is_not_present(store: Store) -> None:
    await store.beat("xds", "a", {}, ttl_ms=LONG_MS)
    await store.beat("xds", "b", {}, ttl_ms=LONG_MS)
    await store.leave("xds", "a")
    await store.leave("xds", "never")
    assert {"xds": {"b"}} == {service: set(found) for service, found in (await store.present()).items()}


async def test_a_closed_store_is_unavailable(store: Store) -> None:
    await store.ping()
    await store.close()
    with pytest.raises(StoreUnavailable):
        await store.ping()


async def test_a_hundred_endpoints_are_one_publish(store: Store) -> None:
    many = [endpoint(f"10.0.0.{n}:8000", seq=n) for n in range(100)]
    await store.publish(tick(*many), ttl_ms=LONG_MS)
    assert sorted(await store.samples(), key=lambda one: one.seq) == many


async def test_every_reader_hears_a_nudge(store: Store) -> None:
    heard: asyncio.Queue[int] = asyncio.Queue()

    async def listen(number: int) -> None:
        async for _ in store.nudges():
            heard.put_nowait(number)

    readers = [asyncio.create_task(listen(number)) for number in range(2)]
    everybody: set[int] = set()

    async def all_heard() -> bool:
        await store.nudge()
        while not heard.empty():
            everybody.add(heard.get_nowait())
        return everybody == {0, 1}

    await until(all_heard, what="both readers hearing")
    for reader in readers:
        reader.cancel()
    await asyncio.gather(*readers, return_exceptions=True)


async def test_nudges_end_with_the_store(store: Store) -> None:
    reader = asyncio.ensure_future(anext(aiter(store.nudges())))
    await asyncio.sleep(0)
    await store.close()
    with pytest.raises(StoreUnavailable):
        await reader


async def test_operators_keys_are_listed_whomever_they_are_for(store: Store) -> None:
    await store.publish(tick(endpoint()), ttl_ms=LONG_MS)
    await store.beat("xds", "a", {}, ttl_ms=LONG_MS)
    wanted = {"weight:typo", "drain:phi-3", "tune:x:y", "split:gpt", "rollout:gpt"}
    for key in (*wanted, "tune"):
        await store.set_field(key, "a:1", "1")
    await store.set_field("weight:gone", "a:1", "1")
    await store.clear_field("weight:gone", "a:1")
    assert wanted == set(await store.operator_key_names())
