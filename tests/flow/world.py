"""A gateway as `tidegate up` runs it, in front of two small simulated engines."""

from __future__ import annotations

import asyncio
import json
import random
import re
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import httpx

from tests.conftest import wait_until
from tests.ports import take_free_port
from tests.up.cluster import Up, start_up, stop_up
from tests.up.engines import Engines
from tidegate.domain.flow.settings import DEFAULT

MODEL = "m"
CLASSES = [
    {"name": "gold", "match": {"header": {"x-tier": "gold"}}, "weight": 3},
    {"name": "silver", "match": {"header": {"x-tier": "silver"}}, "weight": 1},
]


@dataclass(frozen=True)
class Told:
    """One answer: its status, headers, and the seconds to its first byte."""

    status: int
    headers: dict[str, str]
    first_byte_seconds: float


@dataclass(frozen=True)
class Look:
    """How many of each class wait at one moment, and were placed since ext_proc began."""

    waiting: Counter[str]
    placed: Counter[str]


@dataclass
class World:
    """`engines` are the addresses of the simulated engines."""

    up: Up
    engines: list[str]

    def tune(self, *, max_requests: int | None = None, timeout_ms: int | None = None) -> None:
        """HSET tidegate:tune of the queue's bounds; returns when ext_proc has them in force."""
        for name, value in (("max_requests", max_requests), ("timeout_ms", timeout_ms)):
            if value is not None:
                self.up.redis("HSET", "tidegate:tune", f"queue.{name}", str(value))
        if max_requests is not None:
            self._bound_is(max_requests)
        if timeout_ms is not None:
            self._timeout_is(timeout_ms / 1000)

    def forget_tunes(self) -> None:
        self.up.redis("DEL", "tidegate:tune")
        self._bound_is(DEFAULT.max_requests)
        self._timeout_is(DEFAULT.timeout_ms / 1000)

    def _bound_is(self, requests: int) -> None:
        wait_until(lambda: self.metric("tidegate_queue_most_requests", cluster="c") == requests, what="the bound")

    def _timeout_is(self, seconds: float) -> None:
        wait_until(lambda: self.metric("tidegate_queue_timeout_seconds", cluster="c") == seconds, what="the timeout")

    def fault(self, index: int, kind: str) -> None:
        httpx.post(f"http://{self.engines[index]}/sim/fault", json={"fault": kind}, timeout=60).raise_for_status()

    def received(self, index: int) -> list[dict[str, Any]]:
        return list(httpx.get(f"http://{self.engines[index]}/sim/requests?last=256", timeout=60).json())

    def metric(self, name: str, **labels: str) -> float:
        """A value of ext_proc's page; 0 where it is not there yet."""
        wanted = name + "{" + ",".join(f'{key}="{value}"' for key, value in labels.items()) + "} "
        lines = httpx.get(self.up.ready["metrics"]["ext_proc"], timeout=60).text.splitlines()
        return float(next((line.removeprefix(wanted) for line in lines if line.startswith(wanted)), "0"))

    def waiting(self) -> int:
        return self.look().waiting.total()

    def look(self) -> Look:
        page = httpx.get(self.up.ready["metrics"]["ext_proc"], timeout=60).text
        return Look(_by_class(page, "tidegate_queue_requests"), _by_class(page, "tidegate_queue_served_total"))

    def outcome(self, outcome: str) -> float:
        return self.metric("tidegate_queue_outcomes_total", cluster="c", outcome=outcome)

    async def ask(
        self, client: aiohttp.ClientSession, *, prompt_tokens: int = 8, tokens: int = 4, headers: Any = None
    ) -> Told:
        """One streamed completion of a prompt that no other request shares, read to its end."""
        ids = random.choices(range(30_000), k=prompt_tokens)
        body = {"model": MODEL, "prompt": ids, "max_tokens": tokens, "stream": True}
        began = time.monotonic()
        async with client.post(
            f"{self.up.gateway}/v1/completions",
            data=json.dumps(body),
            headers={"content-type": "application/json", **(headers or {})},
        ) as got:
            await got.content.readany()
            first = time.monotonic() - began
            await got.read()
            return Told(got.status, {k.lower(): v for k, v in got.headers.items()}, first)


def _by_class(page: str, family: str) -> Counter[str]:
    """A family of a page, all its priorities together."""
    found = Counter[str]()
    for name, value in re.findall(rf'^{family}\{{.*class="([^"]*)".*\}} (\S+)$', page, re.MULTILINE):
        found[name] += int(float(value))
    return found


def session() -> aiohttp.ClientSession:
    """A client without limits of its own."""
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0), timeout=aiohttp.ClientTimeout(total=120), read_bufsize=1 << 16
    )


def start_world(folder: Path, engines: Engines) -> World:
    """Start the engines, of 2,032 KV tokens each, and the gateway, and wait until both engines serve."""
    addresses = [f"127.0.0.1:{take_free_port()}" for _ in range(2)]
    for address in addresses:
        sizes = ("--kv-blocks", "128", "--max-model-len", "1024")
        engines.start(address, "--record-requests", "--model", MODEL, *sizes)
    config = {
        "gateway": {"listen": "127.0.0.1:0", "expose_routing": True, "explain": True},
        "redis": {"url": f"redis://127.0.0.1:{take_free_port()}/0"},
        "clusters": [{"name": "c", "models": [MODEL], "endpoints": [{"address": one} for one in addresses]}],
        "classes": CLASSES,
    }
    world = World(start_up(folder, config=config), addresses)

    async def both_serve() -> bool:
        async with session() as client:
            told = await world.ask(client, headers={"x-tidegate-explain": "1"})
            return told.status == 200 and told.headers.get("x-tidegate-explain", "").count("cost=") == 2

    try:
        wait_until(lambda: asyncio.run(both_serve()), deadline_seconds=60, what="both engines serve")
    except AssertionError:
        stop_up(world.up)
        raise
    return world
