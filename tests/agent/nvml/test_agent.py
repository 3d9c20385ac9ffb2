"""The whole agent on a driver in trouble: its engines are sampled at full rate, and the node says what is wrong."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time

import pytest
from aiohttp import web

from metrics_agent.app import serve_on
from metrics_agent.gpu import NvmlState, process
from tests.agent.nvml.cards import GIB, card, fail, hang, uuid
from tests.agent.nvml.fake import INITS, LIBRARY
from tests.agent.nvml.workers import NEVER, worker_with
from tests.conftest import until
from tests.ports import take_free_port
from tidegate.domain.sample import Status
from tidegate.domain.topology import Cluster, Endpoint, Topology
from tidegate.runtime import now_ms
from tidegate.settings.services import AgentSettings
from tidegate.store.memory import MemoryStore

PAGE = (
    b'vllm:num_requests_running{model_name="m",engine="0"} 3\nvllm:num_requests_waiting{model_name="m",engine="0"} 0\n'
)
CARDS = [card(0), card(1)]
SETTINGS = AgentSettings(node="n", interval_ms=50, timeout_ms=30_000, sample_ttl_ms=60_000)
"""A busy machine loses no engine, and its samples do not expire."""


@pytest.fixture
async def engine():
    """The address of an engine, and how often its page was asked for."""
    scrapes = []

    async def page(_):
        scrapes.append(1)
        return web.Response(body=PAGE)

    async def health(_):
        return web.Response()

    app = web.Application()
    app.router.add_get("/metrics", page)
    app.router.add_get("/health", health)
    runner, port = web.AppRunner(app, access_log=None, shutdown_timeout=0.05), take_free_port()
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    yield f"127.0.0.1:{port}", scrapes
    await runner.cleanup()


@pytest.fixture
async def store(engine, reader, driver):
    """What a running agent publishes. Its engine runs on the cards 0 and 1."""
    driver.write({"cards": CARDS})
    address, _ = engine
    topology = Topology(clusters=(Cluster("c", ("m",), endpoints=(Endpoint(address, gpus=(0, 1)),)),))
    one = MemoryStore(now_ms)
    agent = asyncio.create_task(serve_on(one, topology, SETTINGS, reader(deadline_seconds=0.5)))
    yield one
    os.kill(os.getpid(), signal.SIGTERM)
    await asyncio.wait_for(agent, 60)


@pytest.fixture(autouse=True)
def once(monkeypatch):
    """No process is replaced, and no lost card looked for again, as long as a test takes."""
    monkeypatch.setattr(process, "WORKER", worker_with(LOST_SECONDS=NEVER))
    monkeypatch.setattr(process, "RESTART_SECONDS", (600.0, 2.0, 600.0))


async def the_node_is(store, state):
    found = []

    async def holds():
        found[:] = [node for node in await store.nodes() if node.nvml == state]
        return found

    await until(holds, what=f"node is {state}")
    return found[0]


async def the_sample(store, condition):
    found = []

    async def holds():
        found[:] = filter(condition, await store.samples())
        return found

    await until(holds, what="sample")
    return found[0]


async def seconds_of_ten(store, scrapes):
    """How long ten scrapes and three ticks take."""
    began, goal, seq = time.monotonic(), len(scrapes) + 10, set()

    async def done():
        seq.add((await store.nodes())[0].seq)
        return len(scrapes) >= goal and len(seq) > 3

    await until(done)
    assert (await store.samples())[0].running == 3
    return time.monotonic() - began


async def test_engine_has_the_memory_of_its_cards(store):
    await the_node_is(store, NvmlState.OK)
    sample = await the_sample(store, lambda s: s.status is Status.READY and s.vram_total_bytes)
    assert (sample.vram_free_bytes, sample.vram_total_bytes) == (120 * GIB, 160 * GIB)


@pytest.mark.parametrize(
    ("state", "script", "memory_is_known"),
    [
        pytest.param("hung", {"cards": CARDS, "calls": [hang("nvmlDeviceGetMemoryInfo_v2")]}, False, id="hang"),
        pytest.param("hung", {"cards": CARDS, "calls": [hang("nvmlDeviceGetCount_v2", "-")]}, False, id="hang-count"),
        pytest.param("gpu_lost", {"cards": CARDS, "calls": [fail("nvmlDeviceGetUUID", "1", 15)]}, False, id="lost"),
        pytest.param("gpu_lost", {"cards": CARDS[:1]}, False, id="vanished"),
        pytest.param(
            "driver_mismatch",
            {"cards": CARDS, "calls": [fail(s, "-", 18) for s in ("nvmlDeviceGetCount_v2", *INITS)]},
            False,
            id="mismatch",
        ),
        pytest.param("crashed", {"cards": CARDS, "calls": [fail("nvmlDeviceGetUUID", "1", -1)]}, False, id="crash"),
        pytest.param(
            "ok", {"cards": [card(n, processes=[0, 2**64 - 2, 4294967295]) for n in (0, 1)]}, True, id="process-list"
        ),
    ],
)
async def test_trouble_of_the_driver_is_told_and_engines_are_sampled_on(
    store, engine, driver, state, script, memory_is_known
):
    _, scrapes = engine
    await the_node_is(store, NvmlState.OK)
    await the_sample(store, lambda s: s.status is Status.READY and s.vram_total_bytes)
    threads, processes = threading.active_count(), len(driver.pids())
    usual_seconds = await seconds_of_ten(store, scrapes)

    async def keep_their_pace():
        return await seconds_of_ten(store, scrapes) < 3 * usual_seconds + 1

    driver.write(script)
    await the_node_is(store, state)
    await the_sample(store, lambda s: (s.vram_free_bytes is not None) is memory_is_known)
    inits = driver.count(*INITS)
    await until(keep_their_pace, what="scrapes at their pace")  # what else is busy here passes, a hang does not
    assert (threads, processes) == (threading.active_count(), len(driver.pids()))
    assert driver.count(*INITS) <= inits + 1

    expected = Status.DRAINING if state == "gpu_lost" else Status.READY
    await the_sample(store, lambda s: s.status is expected)


async def test_lost_card_is_named_and_the_other_goes_on(store, driver):
    await the_node_is(store, NvmlState.OK)
    driver.write({"cards": CARDS, "calls": [fail("nvmlDeviceGetMemoryInfo_v2", "1", 15)]})
    node = await the_node_is(store, NvmlState.GPU_LOST)
    assert node.gpus[uuid(0)]["vram_free_bytes"] == 60 * GIB
    told = {name: node.gpus[uuid(1)].get(name) for name in ("index", "healthy", "reason", "vram_free_bytes")}
    assert told == {"index": 1, "healthy": False, "reason": "gpu_lost", "vram_free_bytes": None}


@pytest.mark.parametrize("shadowed", [False, True], ids=["absent", "a-directory-in-its-place"])
async def test_node_without_a_library_samples_its_engines(engine, reader, tmp_path, monkeypatch, shadowed):
    folder = tmp_path / "lib"
    (folder / LIBRARY if shadowed else folder).mkdir(parents=True)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(folder))
    address, scrapes = engine
    topology = Topology(clusters=(Cluster("c", ("m",), endpoints=(Endpoint(address, gpus=(0,)),)),))
    store = MemoryStore(now_ms)
    agent = asyncio.create_task(serve_on(store, topology, SETTINGS, reader()))
    node = await the_node_is(store, NvmlState.NO_LIBRARY)
    assert node.gpus == {}
    await the_sample(store, lambda s: s.status is Status.READY)
    await seconds_of_ten(store, scrapes)
    os.kill(os.getpid(), signal.SIGTERM)
    await asyncio.wait_for(agent, 60)
