"""Of two xds servers the one that Envoy asks is killed under load, and no request notices."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.conftest import EnvoyProcess, RedisServer, until
from tests.soak.live import Live
from tests.xds.conftest import engines
from tidegate.store.redis import RedisStore

__all__ = ["engines"]

pytestmark = [pytest.mark.envoy, pytest.mark.redis]


@asynccontextmanager
async def asked(url: str, body: dict[str, Any]) -> AsyncIterator[tuple[Counter[str], Counter[str]]]:
    """Requests from three clients until the block ends: answers by status, and by the engine that gave them."""
    statuses, names = Counter[str](), Counter[str]()

    async def ask() -> None:
        async with httpx.AsyncClient(timeout=60) as client:
            while True:
                answer = await client.post(url, json=body)
                statuses[str(answer.status_code)] += 1
                names[answer.json().get("engine", "")] += 1
                await asyncio.sleep(0.02)

    tasks = [asyncio.create_task(ask()) for _ in range(3)]
    try:
        yield statuses, names
        assert not any(task.done() for task in tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def go_on(statuses: Counter[str], requests: int = 50) -> None:
    """Wait for so many more answers."""
    before = statuses.total()
    await until(lambda: statuses.total() >= before + requests, what="load going on")


async def test_the_xds_server_in_use_is_killed_and_envoy_follows_the_other(
    own_redis: RedisServer, tmp_path: Path, envoy: Callable[[str], EnvoyProcess], engines: Any
) -> None:
    a, b = await engines(2)
    live, store = Live(own_redis, tmp_path, envoy), RedisStore(own_redis.url, timeout_seconds=60)
    try:
        endpoints = [{"address": a.address}, {"address": b.address}]
        await live.start([{"name": "chat", "models": ["chat"], "lb": "weighted", "endpoints": endpoints}], 2)
        async with asked(f"{live.gateway}/v1/chat/completions", {"model": "chat"}) as (statuses, names):
            asked_ones: list[str] = []

            async def one_is_asked() -> bool:
                asked_ones[:] = await asks(store)
                return len(asked_ones) == 1

            await until(one_is_asked, what="xds saying whom Envoy asks")
            [used] = asked_ones
            live.kill_xds(used)
            await go_on(statuses)
            await store.set_field("weight:chat", a.address, "0")
            await until(lambda: only(names, statuses, "b"), what="the weight reaching Envoy")
            await until(lambda: follows(store, used), what="Envoy asking the other server")
        assert set(statuses) == {"200"}
    finally:
        await store.close()
        await live.stop()


async def asks(store: RedisStore) -> list[str]:
    """Addresses of the servers that have an Envoy."""
    servers = (await store.present()).get("xds", {}).values()
    return [str(said["listen"]) for said in servers if said["envoys"]]


async def follows(store: RedisStore, killed: str) -> bool:
    return set(await asks(store)) - {killed} != set()


async def only(names: Counter[str], statuses: Counter[str], name: str) -> bool:
    """Whether all of the next requests go to one engine."""
    names.clear()
    await go_on(statuses, 20)
    return set(names) == {name}
