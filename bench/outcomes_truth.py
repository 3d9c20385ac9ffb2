"""Whether the figures are true, and what losing the stream costs: `python -m bench.outcomes_truth`.

`tidegate up` with a real Envoy before an engine in a process of its own; the client is this process, and keeps its own
times and counts. Answers take seconds, so that the way between the client's clock and Envoy's counts little. Then the
outcomes service is stopped as a process that hangs, and killed, while requests go on.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, Final

import aiohttp
from aiohttp import web

from bench import processes
from bench.gateway import gateway
from bench.ports import free_port
from tidegate.domain.outcomes.ending import Ending
from tidegate.domain.outcomes.report import Seen, cluster_seen, replicas_seen
from tidegate.store.redis import RedisStore

AT_ONCE: Final = 40
QUICK: Final = 400
MANY: Final = 4000
TARGET_ERROR: Final = 0.02
BODY: Final = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 4}
PAGE: Final = "".join(
    f'# TYPE vllm:{name} gauge\nvllm:{name}{{model_name="m"}} 0\n'
    for name in ("num_requests_running", "num_requests_waiting", "kv_cache_usage_perc")
)


@dataclass
class Own:
    """What the client saw: answers by status, streams cut off, and the milliseconds of those served."""

    statuses: Counter[int] = field(default_factory=Counter)
    ttfb_ms: list[float] = field(default_factory=list)
    total_ms: list[float] = field(default_factory=list)
    left: int = 0


def measure(seconds: float = 30.0) -> list[dict[str, Any]]:
    """Rows of {name, value, unit, target}."""
    with tempfile.TemporaryDirectory() as name, _engine() as engine, _up(Path(name), engine) as ready:
        return asyncio.run(_measure(ready, seconds))


async def _measure(ready: dict[str, Any], seconds: float) -> list[dict[str, Any]]:
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        ask = _asker(session, ready["gateway"])
        own = await _mixed(ask, seconds)
        seen = await _settled(ready, sum(own.statuses.values()) + own.left)
        rows = [*_counts(own, seen), *_times(own, seen)]
        lost = await _lost(ready, ask)
    rows += lost
    return [{"name": f"outcomes: {n}", "value": v, "unit": u, "target": t} for n, v, u, t in rows]


Row = tuple[str, float, str, float | None]
Ask = Callable[[Own, dict[str, Any]], Awaitable[None]]


def _asker(session: aiohttp.ClientSession, gateway: str) -> Ask:
    async def ask(own: Own, do: dict[str, Any]) -> None:
        began, headers = time.perf_counter(), {"x-do": json.dumps(do)}
        async with session.post(f"{gateway}/v1/chat/completions", json=BODY, headers=headers) as response:
            first = time.perf_counter()
            if do.get("leave"):
                response.close()
                own.left += 1
                return
            await response.read()
        own.statuses[response.status] += 1
        if response.status == 200:
            own.ttfb_ms.append((first - began) * 1000)
            own.total_ms.append((time.perf_counter() - began) * 1000)

    return ask


async def _mixed(ask: Ask, seconds: float) -> Own:
    """AT_ONCE clients; every tenth answer is bad, every fifth a stream, one in twenty is left."""
    own, rng, end = Own(), random.Random(5), time.perf_counter() + seconds

    async def client() -> None:
        while time.perf_counter() < end:
            kind, delay = rng.random(), rng.uniform(2.0, 5.0)
            if kind < 0.1:
                await ask(own, {"status": rng.choice([400, 429, 500, 503]), "delay": 0.2})
            elif kind < 0.15:
                await ask(own, {"delay": 0.2, "events": 50, "gap": 0.1, "leave": True})
            elif kind < 0.35:
                await ask(own, {"delay": delay, "events": 5, "gap": 0.5})
            else:
                await ask(own, {"delay": delay})

    await asyncio.gather(*(client() for _ in range(AT_ONCE)))
    return own


async def _settled(ready: dict[str, Any], wanted: int) -> Seen:
    """What readers see, once it is all there or 5 s have passed."""
    store, end = RedisStore(ready["redis"]), time.perf_counter() + 5
    try:
        while True:
            seen = cluster_seen(replicas_seen(await store.outcomes(["truth"])).get("truth", {}).values())
            if sum(seen.ever) >= wanted or time.perf_counter() > end:
                return seen
            await asyncio.sleep(0.2)
    finally:
        await store.close()


def _counts(own: Own, seen: Seen) -> list[Row]:
    """By how many requests each ending is off."""
    expected = {
        Ending.SERVED: own.statuses[200],
        Ending.CLIENT_ERROR: own.statuses[400],
        Ending.BACK_PRESSURE: own.statuses[429] + own.statuses[503],
        Ending.FAULT: own.statuses[500],
        Ending.LEFT: own.left,
    }
    return [
        (f"{ending} off, of {count}", float(abs(seen.ever[ending.place] - count)), "requests", 0.0)
        for ending, count in expected.items()
    ]


def _times(own: Own, seen: Seen) -> list[Row]:
    rows: list[Row] = []
    for name, sketch, values in (("ttfb", seen.tally.ttfb, own.ttfb_ms), ("total", seen.tally.total, own.total_ms)):
        for part in (0.5, 0.95):
            exact = sorted(values)[int(part * (len(values) - 1))]
            off = abs((sketch.quantile_ms(part) or 0.0) - exact) / exact
            rows.append((f"{name} p{round(100 * part)} off, of {exact:,.0f} ms", off, "ratio", TARGET_ERROR))
    return rows


async def _lost(ready: dict[str, Any], ask: Ask) -> list[Row]:
    """The median of quick requests one after another, and Envoy's memory, while outcomes serves, hangs, is gone."""
    rows: list[Row] = [("p50, outcomes serves", await _quick(ask), "ms", None)]
    before, pid = _allocated_mib(ready), ready["pids"]["outcomes"]
    os.kill(pid, signal.SIGSTOP)
    try:
        rows.append(("p50, outcomes hangs", await _quick(ask), "ms", None))
        for _ in range(MANY // AT_ONCE):
            await asyncio.gather(*(ask(Own(), {}) for _ in range(AT_ONCE)))
        rows.append((f"Envoy grew over {MANY:,} requests", _allocated_mib(ready) - before, "MiB", 4.0))
    finally:
        os.kill(pid, signal.SIGKILL)
    rows.append(("p50, outcomes is gone", await _quick(ask), "ms", None))
    return rows


async def _quick(ask: Ask) -> float:
    own = Own()
    for _ in range(QUICK):
        await ask(own, {})
    if own.statuses != {200: QUICK}:
        raise RuntimeError(f"requests failed: {own.statuses}")
    return median(own.total_ms)


def _allocated_mib(ready: dict[str, Any]) -> float:
    with urllib.request.urlopen(f"{ready['envoy_admin']}/stats?filter=^server.memory_allocated$") as page:
        return int(page.read().split()[-1]) / (1 << 20)


@contextmanager
def _engine() -> Iterator[str]:
    address = f"127.0.0.1:{free_port()}"
    process = subprocess.Popen([sys.executable, "-m", "bench.outcomes_truth", "--serve", address])
    try:
        yield address
    finally:
        processes.stop(process)


@contextmanager
def _up(folder: Path, engine: str) -> Iterator[dict[str, Any]]:
    """`tidegate up` that starts nothing again: what is killed stays away."""
    config = {
        "gateway": {"listen": "127.0.0.1:0"},
        "redis": {"url": f"redis://127.0.0.1:{free_port()}/0"},
        "clusters": [{"name": "truth", "models": ["m"], "endpoints": [{"address": engine}]}],
    }
    with gateway(folder, config, "--no-restart", stop_seconds=20) as ready:
        yield json.loads(ready.read_text())


async def _serve(address: str) -> None:
    """The engine: does as the header x-do says."""
    app, host_port = web.Application(), address.rpartition(":")
    for path in ("/metrics", "/health"):
        app.router.add_get(path, _page)
    app.router.add_post("/{path:.*}", _answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, host_port[0], int(host_port[2])).start()
    await asyncio.Event().wait()


async def _page(_: web.Request) -> web.Response:
    return web.Response(text=PAGE)


async def _answer(request: web.Request) -> web.StreamResponse:
    await request.read()
    do = json.loads(request.headers["x-do"])
    await asyncio.sleep(do.get("delay", 0))
    if not do.get("events"):
        return web.json_response({"object": "chat.completion"}, status=do.get("status", 200))
    response = web.StreamResponse(headers={"content-type": "text/event-stream"})
    await response.prepare(request)
    for number in range(do["events"]):
        await response.write(b'data: {"n": %d}\n\n' % number)
        await asyncio.sleep(do["gap"])
    return response


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--serve", help="be the engine at this address")
    told = parser.parse_args()
    if told.serve:
        asyncio.run(_serve(told.serve))
    else:
        print(json.dumps(measure(told.seconds), indent=1))
