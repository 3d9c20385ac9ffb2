"""From `redis-cli HSET` to traffic shifting on a real Envoy: `python -m bench.weight_shift`.

`tidegate up` with two replicas. A client sends one request after the other; every trial gives the replica that has
all traffic next to none, and the other one all of it, by one `redis-cli HSET` of both weights. The time is from
before redis-cli is started until the response of the first of three requests in a row that the other replica got:
redis-cli, Redis, controller, xds or ext_proc, and Envoy are in it. Trials begin at random moments.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import random
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import aiohttp

from bench.body import MODEL, PATH
from bench.gateway import gateway
from bench.load.asyncio_client import quantile
from bench.upstream import upstream
from tidegate.cli.binaries import redis_cli_binary
from tidegate.domain.wire import ENDPOINT_HEADER

TRIALS: Final = 60
TARGETS: Final = {"p50": 150.0, "p99": 400.0}
IN_A_ROW: Final = 3
SHIFT_SECONDS: Final = 10.0
BESIDE: Final = "beside"
"""A cluster without requests, whose weights move while those of the other are measured."""


@dataclass(frozen=True, slots=True)
class Way:
    """What is measured: who names the replica, the least weight, and whether other weights move meanwhile."""

    name: str
    lb: str
    least: int
    others_move: bool = False


WAYS: Final = (
    Way("weighted, to 0", "weighted", 0),
    Way("weighted, to 1 of 1000", "weighted", 1),
    Way("weighted, to 1 of 1000, amid other changes", "weighted", 1, others_move=True),
    Way("pick, to 0", "pick", 0),
)


@dataclass
class Traffic:
    """One request after the other, and which replica had each of the last ones."""

    url: str
    seen: list[tuple[float, str]] = field(default_factory=list)
    failures: int = 0

    async def run(self) -> None:
        body = {"model": MODEL, "messages": [{"role": "user", "content": "Hello"}]}
        async with aiohttp.ClientSession() as session:
            while True:
                try:
                    async with session.post(self.url, json=body) as answer:
                        await answer.read()
                        self.failures += answer.status != 200
                        self.seen.append((time.monotonic(), answer.headers.get(ENDPOINT_HEADER, "")))
                except aiohttp.ClientError:
                    self.failures += 1
                await asyncio.sleep(0.002)

    async def shifted(self, address: str, since: float) -> float:
        """When the first of some requests in a row that `address` got after `since` was answered."""
        async with asyncio.timeout(SHIFT_SECONDS):
            while (at := self._first(address, since)) is None:
                await asyncio.sleep(0.002)
        return at

    def _first(self, address: str, since: float) -> float | None:
        recent = [one for one in self.seen[-500:] if one[0] > since]
        for number in range(len(recent) - IN_A_ROW + 1):
            if all(who == address for _, who in recent[number : number + IN_A_ROW]):
                return recent[number][0]
        return None


def measure(trials: int = TRIALS) -> list[dict[str, Any]]:
    """Rows of {name, value, unit, target}."""
    rows: list[dict[str, Any]] = []
    for way in WAYS:
        with _cluster(way.lb) as (ready, ports):
            times, failures = asyncio.run(_measure(way, ready, [f"127.0.0.1:{port}" for port in ports], trials))
        for name, q in (("p50", 0.50), ("p99", 0.99), ("max", 1.0)):
            rows.append(_row(f"{way.name}, {name}", quantile(times, q) * 1000, "ms", TARGETS.get(name)))
        rows.append(_row(f"{way.name}, failed requests", failures, "", 0.0))
    return rows


def _row(name: str, value: float, unit: str, target: float | None) -> dict[str, Any]:
    return {"name": f"HSET to traffic: {name}", "value": value, "unit": unit, "target": target}


async def _measure(way: Way, ready: dict[str, Any], addresses: list[str], trials: int) -> tuple[list[float], int]:
    """Seconds of each trial, sorted, and how many requests failed."""
    redis, chance, times = urlsplit(ready["redis"]).port, random.Random(5), []
    async with _at_work(ready["gateway"] + PATH) as traffic:
        await _pin(redis, MODEL, addresses, way.least)
        await traffic.shifted(addresses[0], time.monotonic())
        async with _moving(redis, addresses) if way.others_move else contextlib.nullcontext():
            for number in range(trials):
                await asyncio.sleep(chance.uniform(0.3, 0.7))
                there = addresses[::-1] if number % 2 == 0 else addresses
                began = time.monotonic()
                await _pin(redis, MODEL, there, way.least)
                times.append(await traffic.shifted(there[0], began) - began)
    return sorted(times), traffic.failures


@asynccontextmanager
async def _at_work(url: str) -> AsyncIterator[Traffic]:
    traffic = Traffic(url)
    task = asyncio.create_task(traffic.run())
    try:
        yield traffic
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@asynccontextmanager
async def _moving(redis: int | None, addresses: list[str]) -> AsyncIterator[None]:
    """Weights of another cluster move four times a second, as they do with load: pushes are at their pace."""

    async def move() -> None:
        chance = random.Random(6)
        while True:
            await _pin(redis, BESIDE, addresses, chance.randint(1, 999))
            await asyncio.sleep(0.25)

    task = asyncio.create_task(move())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _pin(redis: int | None, cluster: str, addresses: list[str], least: int) -> None:
    """Plain redis-cli: the first address gets 1000, the other one the least."""
    command = [str(redis_cli_binary()), "-p", str(redis), "HSET", f"tidegate:weight:{cluster}"]
    command += [addresses[0], "1000", addresses[1], str(least)]
    process = await asyncio.create_subprocess_exec(*command, stdout=subprocess.DEVNULL)
    await process.wait()


@contextmanager
def _cluster(lb: str) -> Iterator[tuple[dict[str, Any], tuple[int, ...]]]:
    """`tidegate up` before two engines; what its ready file says, and the engines' ports."""
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as name, upstream(Path(name)) as engines:
        endpoints = [{"address": f"127.0.0.1:{port}"} for port in engines.ports]
        clusters = [
            {"name": MODEL, "models": [MODEL], "lb": lb, "endpoints": endpoints},
            {"name": BESIDE, "models": [BESIDE], "lb": "weighted", "endpoints": endpoints},
        ]
        config = {"gateway": {"listen": "127.0.0.1:0", "expose_routing": True}, "clusters": clusters}
        with gateway(Path(name), config) as ready:
            yield json.loads(ready.read_text()), engines.ports


def main() -> None:
    """Print every figure beside its target, and all as one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=TRIALS)
    rows = measure(parser.parse_args().trials)
    for row in rows:
        target = "" if row["target"] is None else f"≤ {row['target']:g}"
        print(f"{row['name']:<70}{row['value']:>9.1f} {row['unit']:<3} {target}")
    print(json.dumps(rows))


if __name__ == "__main__":
    main()
