"""The tick that publishes a node."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from prometheus_client import CollectorRegistry

from metrics_agent.gpu import FixedGpus, GpuReading, NvmlState
from metrics_agent.instruments import Instruments
from metrics_agent.publisher import Publisher
from metrics_agent.targets import Target
from tidegate.domain.sample import EndpointSample, Status
from tidegate.store.memory import MemoryStore


class Clock:
    at_ms = 1_000_000

    def __call__(self):
        return self.at_ms


def watcher(address="a:1", gpus=(), at_ms=Clock.at_ms):
    sample = EndpointSample(
        cluster="c", address=address, node="n", sampled_at_ms=at_ms, seq=1, status=Status.READY, running=3
    )
    return SimpleNamespace(target=Target("c", address, gpus), latest=sample)


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def store(clock):
    return MemoryStore(clock)


@pytest.fixture
def publisher(store, clock):
    def make(*watchers, gpus=None):
        return Publisher(
            store,
            "n",
            watchers,
            gpus or FixedGpus(),
            Instruments(CollectorRegistry()),
            interval_seconds=0.1,
            sample_ttl_ms=3000,
            clock=clock,
        )

    return make


async def test_tick_has_the_node_and_every_engine(store, publisher):
    await publisher(watcher("a:1"), watcher("b:1")).publish_once()
    assert {s.address for s in await store.samples()} == {"a:1", "b:1"}
    [node] = await store.nodes()
    assert (node.node, node.nvml, node.gpus) == ("n", NvmlState.NO_LIBRARY, {})


async def test_node_without_engines_is_published(store, publisher):
    await publisher().publish_once()
    assert len(await store.nodes()) == 1


async def test_sample_keeps_its_own_time_when_published_again(store, publisher, clock):
    one = publisher(watcher())
    await one.publish_once()
    clock.at_ms += 2000
    await one.publish_once()
    [sample] = await store.samples()
    assert sample.age_ms(clock()) == 2000


async def test_sample_past_its_life_is_not_published(publisher):
    assert publisher(watcher(at_ms=Clock.at_ms - 3001)).tick().endpoints == ()


async def test_engine_that_was_never_seen_is_not_published(publisher):
    unseen = SimpleNamespace(target=Target("c", "a:1"), latest=None)
    assert publisher(unseen).tick().endpoints == ()


async def test_gpu_memory_joins_the_engines_that_name_cards(publisher):
    cards = {"GPU-1": {"index": 0, "vram_free_bytes": 30, "vram_total_bytes": 100}}
    one = publisher(watcher("a:1", (0,)), watcher("b:1"), gpus=FixedGpus(GpuReading(NvmlState.OK, cards, 1)))
    with_card, without = one.tick().endpoints
    assert (with_card.vram_free_bytes, with_card.vram_total_bytes) == (30, 100)
    assert without.vram_free_bytes is None


async def test_seq_grows(publisher):
    one = publisher()
    assert one.tick().node.seq < one.tick().node.seq


async def test_lost_store_is_trouble_and_the_next_tick_resumes_with_the_newest(store, publisher):
    engine = watcher()
    one = publisher(engine)
    store.available = False
    await one.publish_once()
    assert one.trouble
    newest = watcher(at_ms=Clock.at_ms - 7)
    engine.latest = newest.latest
    store.available = True
    await one.publish_once()
    assert one.trouble is None
    assert await store.samples() == [newest.latest]
