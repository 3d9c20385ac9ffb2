"""Large fleets: clusters take turns, orders do not wait for them."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.controller import Controller
from controller.turns import Turns
from tests.controller.world import Clock
from tidegate.domain.sample import EndpointSample, NodeSample, NodeTick, Status
from tidegate.domain.topology import Cluster, Endpoint, Topology
from tidegate.store.memory import MemoryStore

NAMES = ("a", "b", "c")
TOPOLOGY = Topology(tuple(Cluster(name, (f"m-{name}",), endpoints=(Endpoint(f"{name}:1"),)) for name in NAMES))


def test_a_small_fleet_is_looked_at_whole_each_time():
    turns = Turns(most=10)
    assert [turns.take({"a": 4, "b": 6}) for _ in range(3)] == [{"a", "b"}] * 3


def test_clusters_of_a_large_fleet_come_one_after_the_other():
    turns = Turns(most=10)
    taken = [turns.take({"a": 5, "b": 5, "c": 5, "d": 5}) for _ in range(4)]
    assert taken == [{"a", "b"}, {"c", "d"}] * 2


def test_a_cluster_larger_than_a_turn_waits_for_its_size():
    turns = Turns(most=10)
    assert [turns.take({"a": 40}) for _ in range(8)].count({"a"}) == 2


@given(st.dictionaries(st.text(max_size=2), st.integers(0, 60), max_size=8))
def test_turns_come_equally_often_and_cost_no_more_than_most(sizes):
    turns, seen = Turns(most=10), Counter()
    ticks = 400
    for _ in range(ticks):
        seen.update(turns.take(sizes))
    assert sum(sizes[name] * times for name, times in seen.items()) <= 10 * (ticks + 1) + max(sizes.values(), default=0)
    assert seen.keys() == sizes.keys()
    assert max(seen.values(), default=0) - min(seen.values(), default=0) <= 1


def sampled(at_ms, kv):
    samples = tuple(
        EndpointSample(
            cluster=name, address=f"{name}:1", node="n", sampled_at_ms=at_ms, seq=at_ms, status=Status.READY,
            kv_used_ratio=kv,
        )
        for name in NAMES
    )  # fmt: skip
    return NodeTick(node=NodeSample(node="n", sampled_at_ms=at_ms, seq=at_ms, nvml="ok", gpus={}), endpoints=samples)


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def store(clock):
    return MemoryStore(clock)


@pytest.fixture
async def controller(store, clock):
    """Decides on one of three clusters a tick, and has decided on all of them once."""
    controller = Controller(store, TOPOLOGY, clock=clock, _turns=Turns(most=1))
    await store.publish(sampled(clock(), 0.2), ttl_ms=3_000)
    await controller.tick()
    return controller


async def loads(store):
    return {name: one[f"{name}:1"]["load"]["vram"] for name, one in (await store.explain(NAMES)).items()}


async def test_each_tick_decides_on_those_whose_turn_it_is(store, controller, clock):
    seen = []
    for passed_ms in (1_000, 400, 400):
        clock.at_ms += passed_ms
        await store.publish(sampled(clock(), 0.7), ttl_ms=3_000)
        await controller.tick()
        seen.append(sorted(name for name, load in (await loads(store)).items() if load == 0.7))
    assert seen == [["a"], ["a", "b"], ["a", "b", "c"]]


@pytest.mark.parametrize("look", ["tick", "orders"])
async def test_an_order_does_not_wait_for_the_turn_of_its_cluster(store, controller, look):
    await store.set_field("weight:c", "c:1", "7")
    await getattr(controller, look)()
    assert (await store.effective(["c"]))["c"] == {"c:1": 7}


async def test_an_emptied_store_gets_the_weights_of_all_clusters_back(store, controller, clock):
    published = await store.effective(NAMES)
    emptied = MemoryStore(clock)
    controller.store, controller._lease = emptied, None
    await controller.tick()
    assert await emptied.effective(NAMES) == published
