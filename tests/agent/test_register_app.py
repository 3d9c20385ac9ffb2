"""The whole agent with engines that the file does not name: real pages, a real Redis, a real SIGTERM."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from metrics_agent import app
from metrics_agent.app import serve
from tests.agent.test_app import Engine
from tests.conftest import until
from tidegate.domain.errors import ConfigError
from tidegate.domain.sample import Status
from tidegate.settings.services import AgentSettings
from tidegate.store.redis import RedisStore


@pytest.fixture
async def engine():
    one = Engine()
    await one.start()
    yield one
    await one.stop()


@pytest.fixture
async def store(own_redis):
    one = RedisStore(own_redis.url, timeout_seconds=60)
    yield one
    await one.close()


@pytest.fixture
async def agent(own_redis, monkeypatch):
    """`agent(**settings)` runs one on the test's Redis, without a file; `agent.stop()` sends SIGTERM and waits."""
    running = []
    # It leaves within two seconds, whatever it left undone: here a busy machine has time for all of it.
    monkeypatch.setattr(app, "LEAVE_SECONDS", 30.0)
    monkeypatch.setattr(app, "END_SECONDS", 30.0)

    def start(**settings):
        started = AgentSettings(redis_url=own_redis.url, node="gpu-1", interval_ms=50, timeout_ms=30_000, **settings)
        running.append(asyncio.create_task(serve(started)))

    async def stop():
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.wait_for(running.pop(), 60)

    start.stop = stop
    yield start
    if running and not running[0].done():
        await stop()


async def sample_of(store, address):
    return next((s for s in await store.samples() if s.address == address), None)


@pytest.mark.redis
async def test_engine_of_a_flag_is_published_and_leaves_with_the_agent(agent, engine, store):
    address = f"127.0.0.1:{engine.port}"
    left = asyncio.create_task(_first_gone(store))
    agent(engine=[f"new={address},model=mine,precision=int4,kind=llm"])

    samples = []

    async def ready():
        samples[:] = [await sample_of(store, address)]
        return samples[0] is not None and samples[0].status is Status.READY

    await until(ready)
    [sample] = samples
    assert (sample.cluster, sample.models[0], sample.precision, sample.kind) == ("new", "mine", "int4", "llm")
    await agent.stop()
    assert await asyncio.wait_for(left, 60) == (("new", address),)
    assert await store.samples() == []
    assert await store.registered() == []
    assert await store.departed() == {("new", address)}


async def _first_gone(store):
    async for tick in store.ticks():
        if tick.gone:
            return tick.gone
    return ()


@pytest.mark.redis
async def test_engines_of_a_folder_come_and_go_while_the_agent_runs(agent, engine, store, tmp_path):
    address = f"127.0.0.1:{engine.port}"
    folder = tmp_path / "engines"
    folder.mkdir()
    (folder / "bad.yaml").write_text("cluster: [")
    agent(engines_dir=folder)
    (folder / "one.yaml").write_text(f"cluster: phi-3\naddress: {address}\nprecision: fp8\n")

    async def precision_is(wanted):
        sample = await sample_of(store, address)
        return sample is not None and sample.precision == wanted

    await until(lambda: precision_is("fp8"))
    (folder / "one.yaml").write_text(f"cluster: phi-3\naddress: {address}\nprecision: int8\n")
    await until(lambda: precision_is("int8"))
    (folder / "one.yaml").unlink()

    async def departed():
        return await store.departed() == {("phi-3", address)} and not await store.samples()

    await until(departed)


@pytest.mark.redis
async def test_registered_engine_is_loading_until_it_is_well(agent, engine, store):
    address = f"127.0.0.1:{engine.port}"
    engine.healthy = False
    agent(engine=[f"c={address}"])

    async def status_is(status):
        sample = await sample_of(store, address)
        return sample is not None and sample.status is status

    await until(lambda: status_is(Status.LOADING))
    engine.healthy = True
    await until(lambda: status_is(Status.READY))


async def test_agent_that_is_told_a_wrong_flag_says_so(tmp_path):
    with pytest.raises(ConfigError, match="CLUSTER=HOST:PORT"):
        await serve(AgentSettings(engine=["nonsense"], redis_url="redis://127.0.0.1:1/0"))
