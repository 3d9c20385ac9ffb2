"""The whole agent in this process: a real engine page over HTTP, a real Redis, a real SIGTERM."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from metrics_agent.app import serve, serve_on
from metrics_agent.gpu import FixedGpus
from tests.conftest import until
from tests.ports import take_free_port
from tidegate.domain.errors import ConfigError, StoreUnavailable
from tidegate.domain.sample import Status
from tidegate.domain.topology import Topology
from tidegate.runtime import now_ms
from tidegate.settings.services import AgentSettings
from tidegate.store.memory import MemoryStore
from tidegate.store.redis import RedisStore

PAGE = (Path(__file__).parent / "pages" / "vllm_0.33_two_engines.txt").read_bytes()


class Engine:
    """An HTTP server with an engine's pages, that may stop and start on its port."""

    def __init__(self):
        self.port = take_free_port()
        self.page, self.healthy = PAGE, True
        self._runner = None

    async def start(self):
        app = web.Application()
        app.router.add_get("/metrics", self._metrics)
        app.router.add_get("/health", self._health)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.05)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self.port).start()

    async def _metrics(self, _):
        return web.Response(body=self.page)

    async def _health(self, _):
        return web.Response(status=200 if self.healthy else 503)

    async def stop(self):
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None


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
async def agent(tmp_path, engine, own_redis):
    """A running agent with its metrics page at `agent`; ended by SIGTERM."""
    config = tmp_path / "tidegate.yaml"
    config.write_text(
        f"redis: {{url: {own_redis.url}}}\n"
        "clusters:\n"
        f"  - {{name: phi-3, models: [phi-3], endpoints: [{{address: '127.0.0.1:{engine.port}'}}]}}\n"
    )
    listen = f"127.0.0.1:{take_free_port()}"
    settings = AgentSettings(config=config, node="gpu-1", interval_ms=50, timeout_ms=30_000, metrics_listen=listen)
    task = asyncio.create_task(serve(settings))
    yield listen
    if not task.done():
        os.kill(os.getpid(), signal.SIGTERM)
    await asyncio.wait_for(task, 60)


async def newest(store):
    samples = await store.samples()
    return samples[0] if samples else None


@pytest.mark.redis
async def test_agent_publishes_follows_its_engine_and_leaves_on_sigterm(agent, engine, store):
    samples = []

    async def status_is(status):
        samples[:] = [await newest(store)]
        return samples[0] is not None and samples[0].status is status

    async def present():
        return "gpu-1" in (await store.present()).get("agent", {})

    await until(lambda: status_is(Status.READY))
    assert (samples[0].running, samples[0].waiting, samples[0].kv_used_ratio) == (11, 1, 0.14)
    await until(present)

    await engine.stop()
    await until(lambda: status_is(Status.UNREACHABLE))
    await engine.start()
    await until(lambda: status_is(Status.READY))

    os.kill(os.getpid(), signal.SIGTERM)

    async def gone():
        return "agent" not in await store.present()

    await until(gone)


@pytest.mark.redis
async def test_agent_outlives_its_redis_and_resumes(agent, own_redis, store):
    async def published():
        with contextlib.suppress(StoreUnavailable):  # the first words to a Redis that was started again may find it so
            return await newest(store) is not None

    async def get(path):
        async with aiohttp.ClientSession() as client, client.get(f"http://{agent}{path}") as answer:
            return answer.status, await answer.text()

    async def failing():
        return "tidegate_agent_publish_failures_total 0.0" not in (await get("/metrics"))[1]

    await until(published)
    own_redis.stop()
    await until(failing)
    assert (await get("/healthz"))[0] == 200  # the engine is still read
    own_redis.start()
    await until(published)


@pytest.mark.redis
async def test_agent_shows_its_own_metrics(agent, store, engine):
    async def page():
        async with aiohttp.ClientSession() as client, client.get(f"http://{agent}/metrics") as answer:
            return await answer.text()

    async def scraped():
        return f'tidegate_agent_scrape_seconds_count{{endpoint="127.0.0.1:{engine.port}"}}' in await page()

    async def listening():
        try:
            return await scraped()
        except aiohttp.ClientConnectorError:
            return False

    await until(listening)
    assert "tidegate_agent_sample_age_seconds" in await page()


async def test_farewell_to_the_store_and_the_end_of_the_driver_wait_for_each_other():
    began = {"store": asyncio.Event(), "driver": asyncio.Event()}
    ended = []

    async def end(own, other):
        began[own].set()
        await began[other].wait()
        ended.append(own)

    class Driver(FixedGpus):
        async def stop(self):
            await end("driver", "store")

    class Slow(MemoryStore):
        async def leave(self, *_):
            await end("store", "driver")

    store = Slow(now_ms)
    task = asyncio.create_task(serve_on(store, Topology(()), AgentSettings(node="n", interval_ms=50), Driver()))
    await until(store.nodes)
    os.kill(os.getpid(), signal.SIGTERM)
    await asyncio.wait_for(task, 60)
    assert sorted(ended) == ["driver", "store"]


async def test_agent_without_a_file_says_what_to_do():
    with pytest.raises(ConfigError, match="--config"):
        await serve(AgentSettings())
