"""ext_proc dies under traffic: how long until requests reach their model's cluster by Envoy alone.

`python -m bench.fallback`. `tidegate up` with two clusters; clients ask for both models without pause. Every trial
kills ext_proc (SIGKILL) and takes the time until the last request that failed, or got to another cluster, was answered;
then it waits until the ext_proc that `up` starts again is in use.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import aiohttp

from bench.body import PATH
from bench.gateway import gateway
from bench.load.asyncio_client import quantile
from bench.upstream import upstream
from tidegate.domain.wire import CLUSTER_HEADER

TRIALS: Final = 12
CLIENTS: Final = 4
TARGET_MS: Final = 1000.0
QUIET_SECONDS: Final = 1.5
"""Without a failure for so long, what follows is no longer on account of the kill."""
MODELS: Final = ("first", "second")


def measure(trials: int = TRIALS) -> list[dict[str, Any]]:
    """Rows of {name, value, unit, target}."""
    with _cluster() as ready_file:
        times, refused = asyncio.run(_measure(ready_file, trials))
    rows: list[tuple[str, float, str, float | None]] = [
        (name, quantile(sorted(times), q) * 1000, "ms", TARGET_MS) for name, q in (("p50", 0.5), ("max", 1.0))
    ]
    rows.append(("requests refused, the most at one kill", max(refused), "requests", None))
    return [
        {"name": f"without ext_proc: {name}", "value": value, "unit": unit, "target": target}
        for name, value, unit, target in rows
    ]


class _Traffic:
    """Clients that ask in turn for both models, and when an answer was not the right one."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.wrong: list[float] = []
        self.right: list[float] = []

    async def run(self) -> None:
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=10)) as session:
            await asyncio.gather(*(self._client(session, number) for number in range(CLIENTS)))

    async def _client(self, session: aiohttp.ClientSession, number: int) -> None:
        while True:
            number += 1
            right = await self._is_right(session, MODELS[number % len(MODELS)])
            (self.right if right else self.wrong).append(time.monotonic())
            await asyncio.sleep(0.005)

    async def _is_right(self, session: aiohttp.ClientSession, model: str) -> bool:
        body = {"model": model, "messages": [{"role": "user", "content": "Hello"}]}
        try:
            async with session.post(self._url, json=body) as answer:
                await answer.read()
                return answer.status == 200 and answer.headers.get(CLUSTER_HEADER) == model
        except (aiohttp.ClientError, TimeoutError):
            return False


async def _measure(ready_file: Path, trials: int) -> tuple[list[float], list[int]]:
    """Of each trial the seconds, and how many requests were not answered rightly."""
    times, refused = [], []
    traffic = _Traffic(_ready(ready_file)["gateway"] + PATH)
    task = asyncio.create_task(traffic.run())
    try:
        for _ in range(trials):
            pid = await _in_use(ready_file, traffic)
            began, before = time.monotonic(), len(traffic.wrong)
            os.kill(pid, signal.SIGKILL)
            await _quiet(traffic, began)
            wrong = traffic.wrong[before:]
            times.append(max([began, *wrong]) - began)
            refused.append(len(wrong))
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    return times, refused


def _ready(file: Path) -> dict[str, Any]:
    return dict(json.loads(file.read_text()))


async def _quiet(traffic: _Traffic, since: float) -> None:
    async with asyncio.timeout(60):
        while time.monotonic() - max([since, *traffic.wrong[-1:]]) < QUIET_SECONDS:
            await asyncio.sleep(0.02)


async def _in_use(ready_file: Path, traffic: _Traffic) -> int:
    """The pid of ext_proc, once Envoy has sent requests to it for a second."""
    async with asyncio.timeout(120), aiohttp.ClientSession() as session:
        while True:
            ready = _ready(ready_file)
            if "ext_proc" in ready["pids"] and await _is_there(session, ready) and traffic.right:
                await asyncio.sleep(1)
                return int(_ready(ready_file)["pids"]["ext_proc"])
            await asyncio.sleep(0.1)


async def _is_there(session: aiohttp.ClientSession, ready: dict[str, Any]) -> bool:
    """Whether the xDS server says so."""
    try:
        async with session.get(ready["metrics"]["xds"]) as page:
            return "tidegate_xds_picker_away 0.0" in await page.text()
    except aiohttp.ClientError:
        return False


@contextmanager
def _cluster() -> Iterator[Path]:
    """`tidegate up` before an engine for each of two clusters; its ready file."""
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as name, upstream(Path(name)) as engines:
        clusters = [
            {"name": model, "models": [model], "endpoints": [{"address": f"127.0.0.1:{port}"}]}
            for model, port in zip(MODELS, engines.ports, strict=True)
        ]
        config = {"gateway": {"listen": "127.0.0.1:0", "expose_routing": True}, "clusters": clusters}
        with gateway(Path(name), config) as ready:
            yield ready


def main() -> None:
    """Print every figure beside its target, and all as one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=TRIALS)
    rows = measure(parser.parse_args().trials)
    for row in rows:
        target = "" if row["target"] is None else f"≤ {row['target']:g}"
        print(f"{row['name']:<60}{row['value']:>9.1f} {row['unit']:<9} {target}")
    print(json.dumps(rows))


if __name__ == "__main__":
    main()
