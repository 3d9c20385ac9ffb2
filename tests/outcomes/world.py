"""A gateway as `tidegate up` runs it before engines that do as they are told, and a client that keeps its own figures."""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

from tests import conftest
from tests.outcomes.engine import Engine
from tests.ports import take_free_port
from tests.up.cluster import Up, start_up
from tidegate.domain.outcomes.report import Seen, cluster_seen, replicas_seen
from tidegate.store.redis import RedisStore

MODEL, NEXT, SPARE, EMPTY = "m", "m-next", "m-spare", "m-empty"
BODY = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 4}
PATH = "/v1/chat/completions"
_numbers = itertools.count(1)


@dataclass
class Client:
    """Asks, and keeps what it saw: answers by status, times of those served in milliseconds."""

    gateway: str
    session: aiohttp.ClientSession
    statuses: Counter[int] = field(default_factory=Counter)
    total_ms: list[float] = field(default_factory=list)
    ttfb_ms: list[float] = field(default_factory=list)
    broken: int = 0
    left: int = 0

    async def ask(self, model: str = MODEL, **do: Any) -> int:
        """One request to its end; the status."""
        began = time.perf_counter()
        try:
            async with self._post(model, do) as response:
                first = time.perf_counter()
                await response.read()
        except aiohttp.ClientError:
            self.broken += 1
            return 0
        self.statuses[response.status] += 1
        if response.status == 200:
            self.ttfb_ms.append((first - began) * 1000)
            self.total_ms.append((time.perf_counter() - began) * 1000)
        return response.status

    async def leave(self, engines: Sequence[Engine], model: str = MODEL, **do: Any) -> None:
        """Go away in the middle of the answer: after its first event, or while nothing has come."""
        self.left += 1
        number = next(_numbers)
        asking = asyncio.create_task(self._to_its_first_event(model, {**do, "id": number}))
        if not do.get("events"):
            await until(lambda: any(number in engine.heard for engine in engines), "the request at an engine")
            asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)

    async def _to_its_first_event(self, model: str, do: dict[str, Any]) -> None:
        async with self._post(model, do) as response:
            await response.content.readany()
            response.close()

    def _post(self, model: str, do: dict[str, Any]) -> Any:
        return self.session.post(
            self.gateway + PATH, json={"model": model, **BODY}, headers={"x-do": json.dumps(do), "x-class": "fast"}
        )


def config(stable: list[str], canary: list[str]) -> dict[str, Any]:
    def cluster(name: str, model: str, addresses: list[str]) -> dict[str, Any]:
        return {"name": name, "models": [model], "endpoints": [{"address": address} for address in addresses]}

    return {
        "gateway": {"listen": "127.0.0.1:0"},
        "redis": {"url": f"redis://127.0.0.1:{take_free_port()}/0"},
        "clusters": [
            cluster("stable", MODEL, stable),
            cluster("canary", NEXT, canary),
            cluster("spare", SPARE, canary),
            cluster("empty", EMPTY, []),
        ],
        "classes": [{"name": "quick", "match": {"header": {"x-class": "fast"}}}],
        "slos": {MODEL: {"ttfb_p95_ms": 200, "error_rate": 0.01, "availability": 0.99}},
    }


@dataclass
class World:
    """`up` is the gateway, `engines` are two of the cluster `stable` and one of `canary`, which is `spare`'s as well."""

    up: Up
    engines: list[Engine]

    async def seen(self, cluster: str) -> Seen:
        """What readers see of a cluster."""
        replicas = replicas_seen(await self.reports([cluster])).get(cluster, {})
        return cluster_seen(replicas.values())

    async def reports(self, clusters: list[str], models: tuple[str, ...] = ()) -> Any:
        store = RedisStore(self.up.ready["redis"], timeout_seconds=60)
        try:
            return await store.outcomes(clusters, models)
        finally:
            await store.close()

    async def page(self) -> dict[str, float]:
        """Series of the metrics page."""
        async with aiohttp.ClientSession() as session, session.get(self.up.ready["metrics"]["outcomes"]) as response:
            lines = [line for line in (await response.text()).splitlines() if not line.startswith("#")]
        return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines}


async def start_world(folder: Path) -> World:
    """Start engines and gateway, and wait until both versions serve and Envoy tells of it."""
    engines = [Engine(), Engine(), Engine()]
    for engine in engines:
        await engine.start()
    stable, canary = [engines[0].address, engines[1].address], [engines[2].address]
    up = await asyncio.to_thread(start_up, folder, "--patience", "60", config=config(stable, canary))
    return World(up, engines)


async def until(condition: Any, what: str, seconds: float = 60) -> None:
    """Wait for a condition, or an awaitable one, with a deadline."""
    await conftest.until(condition, deadline_seconds=seconds, what=what)
