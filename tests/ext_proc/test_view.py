"""The view follows the store, and keeps what it knew when the store says nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import replace

import pytest

from ext_proc.feed import FleetFeed, resolve
from ext_proc.view import FleetView, destination_of
from tests.conftest import until
from tests.ext_proc.parts import NOW, TTL_MS, Picker, sample, topology
from tidegate.domain.errors import StoreUnavailable
from tidegate.domain.sample import EndpointSample, NodeSample, NodeTick
from tidegate.domain.topology import Cluster, Endpoint, Topology
from tidegate.store.memory import MemoryStore
from tidegate.store.ports import ClusterDecision

ONE, NEW = "10.0.0.1:8000", "10.0.9.9:8000"


def tick(*endpoints: EndpointSample) -> NodeTick:
    node = NodeSample(node="n1", sampled_at_ms=NOW, seq=1, nvml="no_library", gpus={})
    return NodeTick(node=node, endpoints=endpoints)


def known(picker: Picker) -> set[str]:
    return {one.address for one in picker.view.cluster("phi-3").replicas}


Spawn = Callable[[Coroutine[None, None, None]], asyncio.Task[None]]


@pytest.fixture
async def spawn() -> AsyncIterator[Spawn]:
    tasks: list[asyncio.Task[None]] = []

    def go(work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        tasks.append(asyncio.create_task(work))
        return tasks[-1]

    yield go
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def following(picker: Picker) -> tuple[MemoryStore, FleetFeed]:
    store = MemoryStore(lambda: picker.now_ms)
    return store, FleetFeed(picker.view, store, tick_ms=5, clock=lambda: picker.now_ms)


async def test_samples_from_before_the_start_and_from_the_channel_are_both_seen(spawn: Spawn) -> None:
    picker = Picker(topology(1))
    store, feed = following(picker)
    await store.publish(tick(sample(ONE)), ttl_ms=TTL_MS)
    spawn(feed.follow_samples())
    await until(lambda: picker.ask().destinations == [ONE])
    await store.publish(tick(sample(NEW, at_ms=NOW + 1)), ttl_ms=TTL_MS)
    await until(lambda: NEW in known(picker))


async def test_weights_reach_the_picks(spawn: Spawn) -> None:
    picker = Picker(topology(1))
    store, feed = following(picker)
    spawn(feed.follow_decisions())
    await store.write_decisions([ClusterDecision("phi-3", {ONE: 0}, {ONE: {}})], {}, [])
    await until(lambda: picker.ask().status == 503)
    await store.write_decisions([ClusterDecision("phi-3", {ONE: 7}, {ONE: {}})], {}, [])
    await until(lambda: picker.ask().status is None)


async def test_a_lost_store_ends_the_task_and_changes_no_pick(spawn: Spawn) -> None:
    picker = Picker(topology(2))
    store, feed = following(picker)
    await store.write_decisions([ClusterDecision("phi-3", {ONE: 0, "10.0.0.2:8000": 9}, {})], {}, [])
    picker.sample(ONE)
    picker.sample("10.0.0.2:8000")
    task = spawn(feed.follow_decisions())
    await until(lambda: picker.ask().destinations == ["10.0.0.2:8000"])
    store.available = False
    with pytest.raises(StoreUnavailable):
        await task
    assert picker.ask().destinations == ["10.0.0.2:8000"]


async def test_a_replica_named_by_host_is_picked_by_ip(spawn: Spawn) -> None:
    phi = Cluster("phi-3", ("phi-3",), endpoints=(Endpoint("localhost:8000"), Endpoint("no-such-host.invalid:1")))
    picker = Picker(Topology((phi,)))
    picker.sample("localhost:8000")
    assert picker.ask().destinations == []
    _, feed = following(picker)
    spawn(feed.follow_names())
    await until(lambda: picker.ask().destinations == ["127.0.0.1:8000"])


async def test_an_ip_resolves_to_itself() -> None:
    assert await resolve("127.0.0.1:80") == ["127.0.0.1:80"]
    assert await resolve("[::1]:80") == ["[::1]:80"]


def test_an_address_stays_for_as_long_as_its_name_has_it() -> None:
    picker = Picker(Topology((Cluster("phi-3", ("phi-3",), endpoints=(Endpoint("gpu-1:80"),)),)))
    cluster = picker.view.cluster("phi-3")
    used = []
    for found in (["10.0.0.2:80"], ["10.0.0.1:80", "10.0.0.2:80"], ["10.0.0.1:80"]):
        picker.view.resolved("gpu-1:80", found)
        used.append(cluster.replicas[0].destination)
    assert used == ["10.0.0.2:80", "10.0.0.2:80", "10.0.0.1:80"]


@pytest.mark.parametrize(
    ("address", "destination"),
    [
        ("10.0.0.1:80", "10.0.0.1:80"),
        ("[2001:DB8:0::1]:80", "[2001:db8::1]:80"),
        ("gpu-1:80", None),
        ("10.0.0.1", None),
        ("10.0.0.1:99999", None),
    ],
)
def test_a_destination_is_written_as_envoy_writes_it(address: str, destination: str | None) -> None:
    assert destination_of(address) == destination


def test_a_late_sample_does_not_replace_a_newer_one() -> None:
    picker = Picker()
    picker.sample(ONE, running=9)
    picker.sample(ONE, running=0, at_ms=NOW - 100)
    newest = picker.view.cluster("phi-3").replicas[0].sample
    assert newest is not None
    assert newest.running == 9


def test_an_agent_whose_clock_went_back_is_heard_once_its_old_sample_is_stale() -> None:
    picker = Picker()
    picker.sample(ONE, at_ms=NOW)
    picker.now_ms = NOW + TTL_MS + 1
    picker.sample(ONE, at_ms=NOW - 5000, running=4)
    newest = picker.view.cluster("phi-3").replicas[0].sample
    assert newest is not None
    assert newest.running == 4


def test_a_replica_that_left_on_purpose_is_gone_at_once_unless_the_file_names_it() -> None:
    picker = Picker()
    picker.view.sampled([sample(NEW), sample(ONE)], NOW)
    picker.view.left([("phi-3", NEW), ("phi-3", ONE), ("phi-3", "never:1"), ("unheard-of", NEW)])
    known = {one.address: one.sample for one in picker.view.cluster("phi-3").replicas}
    assert NEW not in known
    assert known[ONE] is None


def test_a_registered_replica_comes_and_goes_with_the_index() -> None:
    picker = Picker(topology(1))
    picker.view.registered([("phi-3", NEW, NOW), ("unheard-of", NEW, NOW)], NOW)
    assert known(picker) == {ONE, NEW}
    picker.view.registered([], NOW, {("phi-3", NEW)})
    assert known(picker) == {ONE}


def test_an_emptied_index_drops_no_member() -> None:
    picker = Picker(topology(1))
    picker.view.registered([("phi-3", NEW, NOW)], NOW)
    picker.view.registered([], NOW + 10 * TTL_MS)
    assert known(picker) == {ONE, NEW}


def test_before_the_store_has_answered_a_cluster_without_known_replicas_is_left_to_envoy() -> None:
    picker = Picker(topology(0))
    assert picker.ask().destinations == []
    picker.view.registered([], NOW)
    assert picker.ask().status == 503


def test_a_replica_that_sampled_but_never_registered_is_dropped_once_it_is_stale() -> None:
    picker = Picker(topology(1))
    picker.sample(NEW)
    picker.view.registered([], NOW)
    assert known(picker) == {ONE, NEW}
    picker.view.registered([], NOW + TTL_MS + 1)
    assert known(picker) == {ONE}


def test_an_emptied_store_takes_no_weight_away() -> None:
    picker = Picker(topology(1))
    picker.view.weighted({"phi-3": {ONE: 0}})
    picker.view.weighted({"phi-3": {}})
    assert picker.ask().status == 503


def test_a_sample_of_an_unknown_cluster_is_ignored() -> None:
    view = FleetView(topology(1), TTL_MS)
    view.sampled([replace(sample(ONE), cluster="unheard-of")], NOW)
    assert view.cluster("phi-3").replicas[0].sample is None
