"""Splits and shadows on a real Envoy: `python -m bench.splits`.

`tidegate up` with a model in two versions. A client sends one request after the other; every trial moves all of its
traffic to the other version by one `redis-cli HSET` of `split:{model}`. The time is from before redis-cli is started
until the first of three answers in a row of the other version. Then the same client asks, in turns, for a model without
a shadow and for models whose every request is mirrored: to an engine, to one that never answers, and to nobody.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import aiohttp

from bench.body import MODEL, PATH
from bench.gateway import gateway
from bench.load.asyncio_client import quantile
from bench.upstream import upstream
from tidegate.cli.binaries import redis_cli_binary
from tidegate.domain.wire import CLUSTER_HEADER

TRIALS: Final = 60
ROUNDS: Final = 1000
TARGET_MS: Final = 1000.0
IN_A_ROW: Final = 3
VERSIONS: Final = ("stable", "canary")
SHADOWS: Final = ("live", "silent", "dead")
NONE: Final = "no-shadow"


def measure(trials: int = TRIALS, rounds: int = ROUNDS) -> list[dict[str, Any]]:
    """Rows of {name, value, unit, target}."""
    return asyncio.run(_measure(trials, rounds))


async def _measure(trials: int, rounds: int) -> list[dict[str, Any]]:
    async with _silent() as silent:
        with _cluster(silent) as ready:
            async with aiohttp.ClientSession() as session:
                times = await _moves(session, ready, trials)
                seconds = await _shadowed(session, ready, rounds)
    rows = [
        _row(f"HSET of a split to traffic, {name}", quantile(times, q) * 1000, TARGET_MS)
        for name, q in (("p50", 0.5), ("p99", 0.99), ("max", 1.0))
    ]
    for model, one in seconds.items():
        for name, q in (("p50", 0.5), ("p99", 0.99)):
            rows.append(_row(f"latency, {model}, {name}", quantile(sorted(one), q) * 1000, None))
    return rows


def _row(name: str, value: float, target: float | None) -> dict[str, Any]:
    return {"name": name, "value": value, "unit": "ms", "target": target}


async def _moves(session: aiohttp.ClientSession, ready: dict[str, Any], trials: int) -> list[float]:
    """Seconds of each trial, sorted."""
    redis, chance, times = urlsplit(ready["redis"]).port, random.Random(5), []
    for number in range(trials):
        await asyncio.sleep(chance.uniform(0.2, 0.5))
        there, away = VERSIONS[::-1] if number % 2 == 0 else VERSIONS
        began = time.monotonic()
        hset = asyncio.create_task(_hset(redis, there, away))
        times.append(await _first_of_some(session, ready, there) - began)
        await hset
    return sorted(times)


async def _first_of_some(session: aiohttp.ClientSession, ready: dict[str, Any], version: str) -> float:
    """When the first of some answers in a row of `version` came."""
    since: list[float] = []
    while len(since) < IN_A_ROW:
        answered = await _ask(session, ready, MODEL)
        since = [*since, time.monotonic()] if answered == version else []
    return since[0]


async def _ask(session: aiohttp.ClientSession, ready: dict[str, Any], model: str) -> str:
    body = {"model": model, "user": "bench", "messages": [{"role": "user", "content": "Hello"}]}
    async with session.post(ready["gateway"] + PATH, json=body) as answer:
        await answer.read()
        if answer.status != 200:
            raise RuntimeError(f"{model}: {answer.status}")
        return answer.headers[CLUSTER_HEADER]


async def _hset(redis: int | None, there: str, away: str) -> None:
    command = [str(redis_cli_binary()), "-p", str(redis), "HSET", f"tidegate:split:{MODEL}", there, "1000", away, "0"]
    process = await asyncio.create_subprocess_exec(*command, stdout=subprocess.DEVNULL)
    await process.wait()


async def _shadowed(session: aiohttp.ClientSession, ready: dict[str, Any], rounds: int) -> dict[str, list[float]]:
    """Seconds of each request by the shadow of its model, asked in turns so that all meet the same noise."""
    seconds: dict[str, list[float]] = {name: [] for name in (NONE, *SHADOWS)}
    for _ in range(rounds):
        for model, one in seconds.items():
            began = time.monotonic()
            await _ask(session, ready, model)
            one.append(time.monotonic() - began)
    return seconds


@asynccontextmanager
async def _silent() -> AsyncIterator[int]:
    """The port of a server that takes every connection and never answers."""
    server = await asyncio.get_running_loop().create_server(asyncio.Protocol, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


@contextmanager
def _cluster(silent: int) -> Iterator[dict[str, Any]]:
    """`tidegate up` before two engines; what its ready file says."""
    with (
        tempfile.TemporaryDirectory(prefix="tidegate-bench-") as name,
        upstream(Path(name)) as engines,
        gateway(Path(name), _config(engines.ports, silent)) as ready,
    ):
        yield json.loads(ready.read_text())


def _config(ports: tuple[int, ...], silent: int) -> dict[str, Any]:
    one, two = (f"127.0.0.1:{port}" for port in ports[:2])

    def cluster(name: str, models: list[str], address: str) -> dict[str, Any]:
        return {"name": name, "models": models, "endpoints": [{"address": address}]}

    return {
        "gateway": {"listen": "127.0.0.1:0", "expose_routing": True},
        "clusters": [
            cluster("stable", [MODEL], one),
            cluster("canary", [], two),
            *(cluster(name, [name], one) for name in (NONE, *SHADOWS)),
            cluster("shadow-live", [], two),
            cluster("shadow-silent", [], f"127.0.0.1:{silent}"),
            cluster("shadow-dead", [], "127.0.0.1:9"),
        ],
        "splits": {MODEL: {"stable": 1000, "canary": 0}},
        "shadows": {name: {f"shadow-{name}": 1000} for name in SHADOWS},
    }


def main() -> None:
    """Print every figure beside its target, and all as one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=TRIALS)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    given = parser.parse_args()
    rows = measure(given.trials, given.rounds)
    for row in rows:
        target = "" if row["target"] is None else f"≤ {row['target']:g}"
        print(f"{row['name']:<60}{row['value']:>9.2f} {row['unit']:<3} {target}")
    print(json.dumps(rows))


if __name__ == "__main__":
    main()
