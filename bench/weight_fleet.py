"""Two FP16 and two INT4 replicas behind a real Envoy, on the wall clock: `python -m bench.weight_fleet`.

`tidegate up` in a weighted cluster with four simulated engines, two of them 1.36 times as fast, which nothing tells.
Chat requests arrive at 80 % of what the engines finish at saturation; after a minute and a half one FP16 engine falls
to half its speed. Shares are those of the published weights; a request counts by the second in which it was sent, and
every one is waited for, so that those who wait longest are not left out. Takes three minutes; opt-in, since it wants a
machine of its own.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import aiohttp

from bench import processes
from bench.body import MODEL, PATH
from bench.gateway import gateway
from bench.ports import answers, free_port
from bench.weights.fleet import Chat, saturated
from simulator.engine import EngineParams
from tidegate.store.redis import RedisStore

BASE_SPEED: Final = 0.25
SEQUENCES: Final = 16
"""Of an engine at once: a small batch, so that this machine can send what saturates four engines."""
SPEEDS: Final = (1.0, 1.0, 1.36, 1.36)
LOAD: Final = 0.8
CHAT: Final = Chat((150.0, 0.5), (60.0, 0.5))
SLOW_AT: Final = 90.0
END: Final = 130.0
SETTLED: Final = 60.0
CHARACTERS_OF_TOKEN: Final = 4
LONGEST_SECONDS: Final = 300.0

ENGINE: Final = """
import asyncio, signal, sys
from dataclasses import replace
import simulator.app as app
from tidegate.settings.services import EngineSimSettings
made = app._model
def model(settings, registry):
    routes, driver, length = made(settings, registry)
    engine = driver._engine
    def slow():
        engine.params = replace(engine.params, speed=engine.params.speed / 2)
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, slow)
    return routes, driver, length
app._model = model
asyncio.run(app.serve(EngineSimSettings(
    port=int(sys.argv[1]), speed=float(sys.argv[2]), model=[sys.argv[3]], max_num_seqs=int(sys.argv[4])
)))
"""


@dataclass(slots=True)
class Watched:
    """Shares by second since the start, and seconds that requests took by the second in which they were sent."""

    shares: list[tuple[float, list[float]]] = field(default_factory=list)
    took: list[tuple[float, float]] = field(default_factory=list)
    failures: int = 0

    def p99(self, start: float, end: float) -> float:
        found = sorted(took for at, took in self.took if start <= at < end)
        return found[int(0.99 * len(found))]


def measure(policy: str = "load") -> list[dict[str, Any]]:
    """Rows of {name, value, unit, target} under one `weight.policy`, or `pinned` to round robin."""
    rate = LOAD * sum(SPEEDS) * saturated(EngineParams(speed=BASE_SPEED, max_num_seqs=SEQUENCES), chat=CHAT)
    with _cluster() as (ready, addresses, engines):
        seen = asyncio.run(_watch(ready, addresses, engines, rate, policy))
    return _rows(seen, rate, policy)


def _rows(seen: Watched, rate: float, policy: str) -> list[dict[str, Any]]:
    ideal = [speed / sum(SPEEDS) for speed in SPEEDS]
    rest = [shares for at, shares in seen.shares if SETTLED <= at < SLOW_AT]
    means = [sum(column) / len(rest) for column in zip(*rest, strict=True)]
    swings = [
        max(max(column) / mean - 1, 1 - min(column) / mean)
        for column, mean in zip(zip(*rest, strict=True), means, strict=True)
    ]
    bearable = 0.5 / (LOAD * sum(SPEEDS))
    relieved = [at - SLOW_AT for at, shares in seen.shares if at > SLOW_AT and shares[0] <= bearable]
    off = max(abs(mean / share - 1) for mean, share in zip(means, ideal, strict=True))
    return [
        _row(policy, "requests", rate, "a second", None),
        _row(policy, "failures", seen.failures, "requests", 0),
        _row(policy, "mean share off ideal after 60 s", off * 100, "%", 5.0),
        _row(policy, "swing after 60 s", max(swings) * 100, "%", 5.0),
        _row(policy, "relieved at half its speed after", relieved[0] if relieved else -1, "s", 15.0),
        _row(policy, "p99 at rest", seen.p99(SETTLED, SLOW_AT), "s", None),
        _row(policy, "p99 with the slow one", seen.p99(SLOW_AT + 5, END), "s", None),
    ]


def _row(policy: str, name: str, value: float, unit: str, target: float | None) -> dict[str, Any]:
    return {"name": f"fleet under {policy}: {name}", "value": value, "unit": unit, "target": target}


async def _watch(
    ready: dict[str, Any], addresses: list[str], engines: list[subprocess.Popen[bytes]], rate: float, policy: str
) -> Watched:
    seen, began = Watched(), time.monotonic()
    store = RedisStore(ready["redis"])
    for address in addresses if policy == "pinned" else ():
        await store.set_field(f"weight:{MODEL}", address, "500")
    look = asyncio.create_task(_look(store, addresses, seen, began))
    slow_down = asyncio.get_running_loop().call_later(SLOW_AT, os.kill, engines[0].pid, signal.SIGUSR1)
    try:
        await send(ready["gateway"], rate, seen, began, seconds=END)
    finally:
        slow_down.cancel()
        look.cancel()
        await asyncio.gather(look, return_exceptions=True)
        await store.close()
    return seen


async def _look(store: RedisStore, addresses: list[str], seen: Watched, began: float) -> None:
    while True:
        weights = (await store.effective([MODEL]))[MODEL]
        if total := sum(weights.values()):
            seen.shares.append((time.monotonic() - began, [weights.get(a, 0) / total for a in addresses]))
        await asyncio.sleep(0.25)


async def send(gateway: str, rate: float, seen: Watched, began: float, *, seconds: float) -> None:
    """Poisson arrivals that wait for nobody; return when the last one is answered.

    To end the session earlier would cut the requests that are under way, and count them as failures.
    """
    chance, due = random.Random(3), time.monotonic()
    async with (
        aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0), timeout=aiohttp.ClientTimeout(total=LONGEST_SECONDS)
        ) as session,
        asyncio.TaskGroup() as asked,
    ):
        while (due := due + chance.expovariate(rate)) < began + seconds:
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            request = CHAT.draw(chance)
            asked.create_task(_ask(session, gateway, request.prompt_tokens, request.outputs[0].tokens, seen, began))


async def _ask(
    session: aiohttp.ClientSession, gateway: str, prompt: int, answer: int, seen: Watched, began: float
) -> None:
    content = "word " * (prompt * CHARACTERS_OF_TOKEN // 5)
    body = {"model": MODEL, "max_tokens": answer, "messages": [{"role": "user", "content": content}]}
    started = time.monotonic()
    try:
        async with session.post(f"{gateway}{PATH}", json={**body, "ignore_eos": True}) as response:
            await response.read()
            seen.failures += response.status != 200
    except (aiohttp.ClientError, TimeoutError):
        seen.failures += 1
    seen.took.append((started - began, time.monotonic() - started))


@contextmanager
def _cluster() -> Iterator[tuple[dict[str, Any], list[str], list[subprocess.Popen[bytes]]]]:
    """`tidegate up` before four engines: what its ready file says, their addresses and processes."""
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as name, ExitStack() as stack:
        folder, ports = Path(name), [free_port() for _ in SPEEDS]
        engines = [
            stack.enter_context(_engine(folder, port, BASE_SPEED * speed))
            for port, speed in zip(ports, SPEEDS, strict=True)
        ]
        addresses = [f"127.0.0.1:{port}" for port in ports]
        endpoints = [{"address": address} for address in addresses]
        clusters = [{"name": MODEL, "models": [MODEL], "lb": "weighted", "endpoints": endpoints}]
        ready = stack.enter_context(gateway(folder, {"gateway": {"listen": "127.0.0.1:0"}, "clusters": clusters}))
        yield json.loads(ready.read_text()), addresses, engines


@contextmanager
def _engine(folder: Path, port: int, speed: float) -> Iterator[subprocess.Popen[bytes]]:
    log = folder / f"engine-{port}.log"
    process = processes.start([sys.executable, "-c", ENGINE, str(port), str(speed), MODEL, str(SEQUENCES)], log)
    try:
        processes.wait_for(lambda: answers(f"http://127.0.0.1:{port}/health"), process, log)
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            processes.stop(process)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--policy", default="load", choices=["load", "pinned"])
    print(json.dumps(measure(parser.parse_args().policy), indent=1))
