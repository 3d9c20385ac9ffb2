"""The tick that publishes a node."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest
from prometheus_client import CollectorRegistry

from metrics_agent.gpu import FixedGpus, GpuReading, NvmlState
from metrics_agent.health import trouble
from metrics_agent.instruments import Instruments
from metrics_agent.publisher import Publisher
from metrics_agent.targets import Target
from tests.conftest import until
from tidegate.domain.sample import EndpointSample, Status
from tidegate.domain.topology import Kind, Precision
from tidegate.store.clock import StoreClock
from tidegate.store.memory import MemoryStore

START_MS = 1_700_000_000_000


class Time:
    """This machine's time, and how far the store's is ahead."""

    at_ms = START_MS
    ahead_ms = 0

    def store_ms(self):
        return self.at_ms + self.ahead_ms

    def seconds(self):
        return self.at_ms / 1000


def watcher(address="a:1", gpus=(), at_ms=START_MS, status=Status.READY, models=()):
    sample = EndpointSample(
        cluster="c", address=address, node="n", sampled_at_ms=at_ms, seq=1, status=status, running=3, models=models
    )
    return SimpleNamespace(target=Target("c", address, gpus), latest=sample)


class CountingStore(MemoryStore):
    """Counts publishes, and how many are under way at once; `gate` holds them up."""

    def __init__(self, clock_ms):
        super().__init__(clock_ms)
        self.begun = self.under_way = self.most_under_way = 0
        self.gate = asyncio.Event()
        self.gate.set()
        self.ticks_taken = []

    async def publish(self, tick, *, ttl_ms):
        self.begun += 1
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        await self.gate.wait()
        self.under_way -= 1
        await super().publish(tick, ttl_ms=ttl_ms)
        self.ticks_taken.append(tick)


@pytest.fixture
def time():
    return Time()


@pytest.fixture
def store(time):
    return CountingStore(time.store_ms)


@pytest.fixture
def registry():
    return CollectorRegistry()


@pytest.fixture
def engines():
    return SimpleNamespace(watchers=[], gone=set())


@pytest.fixture
def publisher(store, time, engines, registry):
    instruments = Instruments(registry)

    def make(*watchers, gpus=None, **options):
        engines.watchers = list(watchers)
        clock = StoreClock(store, wall_seconds=time.seconds, monotonic=time.seconds)
        settings = {"interval_seconds": 0.1, "sample_ttl_ms": 3000, "monotonic": time.seconds} | options
        return Publisher(store, "n", engines, gpus or FixedGpus(), instruments, clock, **settings)

    return make


async def test_tick_has_the_node_and_every_engine_in_one_publish(store, publisher):
    await publisher(watcher("a:1"), watcher("b:1")).publish_once()
    assert {s.address for s in await store.samples()} == {"a:1", "b:1"}
    [node] = await store.nodes()
    assert (node.node, node.nvml, node.gpus) == ("n", NvmlState.NO_LIBRARY, {})
    assert store.begun == 1


async def test_node_without_engines_is_published(store, publisher):
    await publisher().publish_once()
    assert len(await store.nodes()) == 1


async def test_sample_keeps_its_own_time_when_published_again(store, publisher, time):
    one = publisher(watcher())
    await one.publish_once()
    time.at_ms += 2000
    await one.publish_once()
    [sample] = await store.samples()
    assert sample.age_ms(time.store_ms()) == 2000


@pytest.mark.parametrize("ahead_ms", [3_600_000, -3_600_000])
async def test_samples_are_published_in_the_stores_time(store, publisher, time, ahead_ms):
    time.ahead_ms = ahead_ms
    await publisher(watcher(at_ms=START_MS - 40)).publish_once()
    [sample], [node] = await store.samples(), await store.nodes()
    assert sample.sampled_at_ms == START_MS - 40 + ahead_ms
    assert node.sampled_at_ms == START_MS + ahead_ms


async def test_nothing_is_published_before_the_stores_time_is_known(store, publisher, time, engines):
    time.ahead_ms = 3_600_000
    one = publisher(watcher())
    store.available = False
    await one.publish_once()
    assert store.begun == 0
    store.available = True
    await one.publish_once()
    assert [t.node.sampled_at_ms for t in store.ticks_taken] == [START_MS + 3_600_000]


async def test_sample_past_its_life_is_not_published(publisher):
    assert publisher(watcher(at_ms=START_MS - 3001)).tick().endpoints == ()


async def test_engine_that_was_never_seen_is_not_published(publisher):
    unseen = SimpleNamespace(target=Target("c", "a:1"), latest=None)
    assert publisher(unseen).tick().endpoints == ()


async def test_gpu_memory_joins_the_engines_that_name_cards(publisher):
    cards = {"GPU-1": {"index": 0, "vram_free_bytes": 30, "vram_total_bytes": 100}}
    one = publisher(watcher("a:1", (0,)), watcher("b:1"), gpus=FixedGpus(GpuReading(NvmlState.OK, cards, 1)))
    with_card, without = one.tick().endpoints
    assert (with_card.vram_free_bytes, with_card.vram_total_bytes) == (30, 100)
    assert without.vram_free_bytes is None


async def test_what_a_registration_says_travels_in_the_sample(publisher):
    named = watcher(models=("adapter", "phi-3"))
    named.target = Target("c", "a:1", models=("phi-3", "big"), precision=Precision.INT4, kind=Kind.LLM)
    [sample] = publisher(named).tick().endpoints
    assert (sample.models, sample.precision, sample.kind) == (("phi-3", "big", "adapter"), "int4", "llm")


async def test_seq_grows_also_across_a_restart_on_a_machine_whose_clock_went_back(store, publisher, time):
    before = publisher()
    for _ in range(3):
        await before.publish_once()
    time.at_ms, time.ahead_ms = START_MS - 500_000, 500_100
    after = publisher()
    await after.publish_once()
    seqs = [tick.node.seq for tick in store.ticks_taken]
    assert seqs == sorted(set(seqs))


async def test_lost_store_is_trouble_and_the_next_tick_resumes_with_the_newest(store, publisher):
    engine = watcher()
    one = publisher(engine)
    await one.publish_once()
    store.available = False
    for _ in range(5):
        await one.publish_once()
    assert one.trouble
    newest = watcher(at_ms=START_MS - 7)
    engine.latest = newest.latest
    store.available = True
    store.ticks_taken.clear()
    await one.publish_once()
    assert one.trouble is None
    assert [tick.endpoints for tick in store.ticks_taken] == [(newest.latest,)]


async def test_slow_store_has_one_publish_under_way(store, publisher):
    one = publisher(watcher(), interval_seconds=0.001, monotonic=asyncio.get_running_loop().time)
    store.gate.clear()
    task = asyncio.create_task(one.run())
    try:
        await until(lambda: store.begun == 1)
        for _ in range(200):
            await asyncio.sleep(0)
        store.gate.set()
        await until(lambda: store.begun >= 5)
        assert store.most_under_way == 1
    finally:
        task.cancel()


async def test_tick_waits_for_the_engines_of_the_last_slot_alone(store, publisher, time):
    seconds = asyncio.get_running_loop().time
    prompt, late, lost = watcher("a:1"), watcher("b:1"), watcher("d:1")
    one = publisher(prompt, late, lost, interval_seconds=0.1, monotonic=seconds)
    began = seconds() - 0.02
    time.at_ms += 1_000_000
    began_ms = time.at_ms - 20
    for engine, at_ms in ((prompt, began_ms + 5), (late, began_ms - 95), (lost, began_ms - 500)):
        engine.latest = watcher(at_ms=at_ms).latest
    round_ = asyncio.create_task(one._round(began, seconds() + 60))
    await asyncio.sleep(0.03)
    assert not round_.done()
    late.latest = watcher(at_ms=began_ms + 1).latest
    await asyncio.wait_for(round_, 60)


async def test_tick_does_not_wait_past_its_time(publisher, time):
    seconds = asyncio.get_running_loop().time
    one = publisher(watcher(at_ms=time.at_ms - 50), interval_seconds=0.1, monotonic=seconds)
    await asyncio.wait_for(one._round(seconds() - 0.001, seconds() + 0.02), 60)


async def test_engine_that_left_is_told_until_the_store_knows(store, publisher, engines):
    one = publisher(watcher("b:1"))
    engines.gone.add(("c", "a:1"))
    store.available = False
    await one.publish_once()
    assert engines.gone
    store.available = True
    await one.publish_once()
    await one.publish_once()
    assert [tick.gone for tick in store.ticks_taken] == [(("c", "a:1"),), ()]
    assert await store.departed() == {("c", "a:1")}


async def test_ticks_that_the_store_did_not_take_are_counted(store, publisher, registry):
    one = publisher()
    store.available = False
    await one.publish_once()
    await one.publish_once()
    assert registry.get_sample_value("tidegate_agent_publish_failures_total") == 2


async def test_engines_and_cards_show_while_the_store_was_never_there(store, publisher, registry):
    one = publisher(watcher(at_ms=START_MS - 500), gpus=FixedGpus(GpuReading(NvmlState.HUNG)))
    store.available = False
    await one.publish_once()
    assert registry.get_sample_value("tidegate_agent_sample_age_seconds", {"endpoint": "a:1"}) == 0.5
    assert registry.get_sample_value("tidegate_agent_nvml_state", {"state": "hung"}) == 1


async def test_metrics_show_age_nvml_and_the_stores_lag(store, publisher, registry, time):
    one = publisher(watcher(at_ms=START_MS - 500), gpus=FixedGpus(GpuReading(NvmlState.HUNG)))
    await one.publish_once()
    time.at_ms += 7000
    said = registry.get_sample_value
    assert said("tidegate_agent_sample_age_seconds", {"endpoint": "a:1"}) == 0.5
    assert said("tidegate_agent_nvml_state", {"state": "hung"}) == 1
    assert said("tidegate_agent_publish_seconds_count") == 1
    assert said("tidegate_agent_unpublished_seconds") == 7


OK, LOST = GpuReading(NvmlState.OK), GpuReading(NvmlState.HUNG)
ALL_LOST = GpuReading(NvmlState.GPU_LOST, {"GPU-a": {"index": 0, "healthy": False, "reason": "gpu_lost"}})
ONE_OF_TWO = GpuReading(NvmlState.GPU_LOST, {**ALL_LOST.gpus, "GPU-b": {"index": 1, "healthy": True}})
IN_PART = GpuReading(NvmlState.PARTIAL, {"GPU-a": {"index": 0, "healthy": True, "reason": "no_permission"}})
REACHED, UNREACHED = [watcher()], [watcher(status=Status.UNREACHABLE)]


@pytest.mark.parametrize(
    ("expected", "unpublished", "watchers", "reading"),
    [
        pytest.param(None, None, REACHED, OK, id="all-well"),
        pytest.param(None, None, UNREACHED, LOST, id="publishes-that-nothing-is-there"),
        pytest.param(None, "Redis is away", REACHED, LOST, id="an-engine-is-read"),
        pytest.param(None, "Redis is away", UNREACHED, OK, id="cards-are-read"),
        pytest.param(None, "Redis is away", [], ONE_OF_TWO, id="one-card-is-lost-and-another-read"),
        pytest.param(None, "Redis is away", [], IN_PART, id="a-card-is-read-in-part"),
        pytest.param(
            "Redis is away; no engine is registered; NVML: gpu_lost\n", "Redis is away", [], ALL_LOST, id="all-are-lost"
        ),
        pytest.param(
            "Redis is away; none of 1 engines answers; NVML: hung\n", "Redis is away", UNREACHED, LOST, id="nothing"
        ),
        pytest.param("Redis is away; no engine is registered; NVML: hung\n", "Redis is away", [], LOST, id="no-engine"),
    ],
)
def test_agent_is_well_while_either_half_works(expected, unpublished, watchers, reading):
    assert trouble(unpublished, watchers, reading) == expected
