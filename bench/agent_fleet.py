"""1,000 endpoints on 125 nodes, each published ten times a second: `python -m bench.agent_fleet`.

What that costs Redis, and what it costs a subscriber that keeps the whole fleet in memory as ext_proc does: samples
from the channel, the index and the weights every 250 ms. The nodes are one process with a connection each; their
pipelines are packed before and differ from the agent's in nothing but that. Every value changes with every tick.

CPU is told for a tick and as the share of a core that the whole rate takes, so that it means the same on a machine
too busy to keep the rate.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from bench import processes
from bench.redis_process import calls, redis_server
from ext_proc.feed import FleetFeed
from ext_proc.view import FleetView
from tidegate.domain.sample import EndpointSample, NodeSample, NodeTick, Status
from tidegate.domain.topology import Cluster, Topology
from tidegate.runtime import run
from tidegate.store import commands
from tidegate.store.clock import StoreClock
from tidegate.store.redis import RedisStore
from tidegate.store.schema import Keys

NODES: Final = 125
ENGINES: Final = 8
CLUSTERS: Final = 20
TICKS_PER_SECOND: Final = 10
RATE: Final = NODES * TICKS_PER_SECOND
SECONDS: Final = 8.0
VARIANTS: Final = 5
TTL_MS: Final = 3000
TARGET: Final = 0.5
TIME_MS: Final = 1_700_000_000_000  # stands in the packed pipelines for the time at which they are sent
ROLES: Final = ("nodes", "subscriber")


def measure(seconds: float = SECONDS) -> list[dict[str, Any]]:
    """Rows of {name, value, unit, target}; `target` is None where there is none."""
    with (
        tempfile.TemporaryDirectory(prefix="tidegate-bench-") as name,
        redis_server(Path(name)) as (port, redis_pid),
        _role("subscriber", port) as subscriber,
        _role("nodes", port) as nodes,
    ):
        pids = (redis_pid, subscriber.pid)
        before = _look(_ask(nodes), port, _ask(subscriber), pids)
        time.sleep(seconds)
        after = _look(_ask(nodes), port, _ask(subscriber), pids)
    passed, sent, taken, got, redis, reader = (b - a for a, b in zip(before, after, strict=True))
    return [
        _row("samples sent", sent * ENGINES / passed, "a second", None),
        _row("samples that Redis took", taken * ENGINES / passed, "a second", None),
        _row("samples received", got * ENGINES / passed, "a second", None),
        _row("Redis, a tick of 8 endpoints", redis / taken * 1e6, "µs", None),
        _row("Redis at the whole rate", redis / taken * RATE, "of a core", TARGET),
        _row("subscriber, a tick of 8 endpoints", reader / got * 1e6, "µs", None),
        _row("subscriber at the whole rate", reader / got * RATE, "of a core", TARGET),
    ]


def _row(name: str, value: float, unit: str, target: float | None) -> dict[str, Any]:
    return {"name": f"fleet: {name}", "value": value, "unit": unit, "target": target}


def _look(sent: int, port: int, got: int, pids: tuple[int, int]) -> tuple[float, ...]:
    """Seconds, ticks sent, taken by Redis and received, and CPU seconds of the processes, so far."""
    return (time.perf_counter(), sent, calls(port, "publish"), got, *(processes.cpu_seconds([pid]) for pid in pids))


def _ask(process: subprocess.Popen[str]) -> int:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("\n")
    process.stdin.flush()
    return int(process.stdout.readline())


@contextmanager
def _role(name: str, port: int) -> Iterator[subprocess.Popen[str]]:
    """A process of this module until exit; it answers each line on stdin with how many ticks it has seen."""
    command = [sys.executable, "-m", "bench.agent_fleet", "--role", name, "--port", str(port)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        if process.stdout.readline() != "ready\n":
            raise RuntimeError(f"the {name} of the fleet did not start")
        yield process
    finally:
        processes.stop(process)


class _Count:
    """Ticks so far."""

    ticks = 0


async def _answer(count: _Count) -> None:
    told = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(told), sys.stdin)
    while await told.readline():
        print(count.ticks, flush=True)


async def _play(role: str, port: int) -> None:
    count = _Count()
    play = _subscribe if role == "subscriber" else _publish
    work = asyncio.create_task(play(port, count))
    try:
        await _answer(count)
    finally:
        work.cancel()


# --- the subscriber ---------------------------------------------------------------------------------------------


class _Counting(FleetView):
    """The fleet as ext_proc has it, and how many ticks came."""

    def __init__(self, count: _Count) -> None:
        super().__init__(Topology(tuple(Cluster(f"model-{n}", (f"m{n}",)) for n in range(CLUSTERS))), TTL_MS)
        self._count = count

    def sampled(self, samples: Any, now_ms: int) -> None:
        super().sampled(samples, now_ms)
        self._count.ticks += 1


async def _subscribe(port: int, count: _Count) -> None:
    store = RedisStore(f"redis://127.0.0.1:{port}/0")
    feed = FleetFeed(_Counting(count), store, tick_ms=250, clock=StoreClock(store))
    print("ready", flush=True)
    await asyncio.gather(feed.follow_samples(), feed.follow_decisions())


# --- the nodes --------------------------------------------------------------------------------------------------


class _Ignore(asyncio.Protocol):
    """Reads the replies and forgets them."""


async def _publish(port: int, count: _Count) -> None:
    """Each node in its turn, for ever; a node that Redis keeps waiting is not waited for."""
    loop = asyncio.get_running_loop()
    pipelines = _pipelines()
    connections = [(await loop.create_connection(_Ignore, "127.0.0.1", port))[0] for _ in range(NODES)]
    print("ready", flush=True)
    began = time.monotonic()
    while True:
        due = min(RATE, int((time.monotonic() - began) * RATE) - count.ticks)
        for _ in range(due):
            node, variant = count.ticks % NODES, count.ticks // NODES % VARIANTS
            payload = pipelines[node][variant].replace(b"%d" % TIME_MS, b"%d" % (time.time_ns() // 1_000_000))
            connections[node].write(payload)
            count.ticks += 1
        await asyncio.sleep(1 / RATE)


def _pipelines() -> list[list[bytes]]:
    """By node, what its agent would send."""
    chance, keys = random.Random(1), Keys()
    return [
        [
            commands.packed([("MULTI",), *commands.publish(keys, _tick(node, chance), TTL_MS), ("EXEC",)])
            for _ in range(VARIANTS)
        ]
        for node in range(NODES)
    ]


def _tick(node: int, chance: random.Random) -> NodeTick:
    card = {
        "name": "NVIDIA H200",
        "vram_free_bytes": chance.randrange(80 << 30),
        "vram_total_bytes": 80 << 30,
        "utilization_ratio": 0.5,
        "power_watts": 350.5,
        "temperature_celsius": 60,
    }
    gpus: Any = {f"GPU-{node:04}{index:028x}": {**card, "index": index} for index in range(ENGINES)}
    name = f"gpu-node-{node}"
    sample = NodeSample(node=name, sampled_at_ms=TIME_MS, seq=TIME_MS, nvml="ok", gpus=gpus)
    return NodeTick(node=sample, endpoints=tuple(_sample(name, node * ENGINES + one, chance) for one in range(ENGINES)))


def _sample(node: str, number: int, chance: random.Random) -> EndpointSample:
    return EndpointSample(
        cluster=f"model-{number % CLUSTERS}",
        address=f"10.0.{number // 250}.{number % 250}:8000",
        node=node,
        sampled_at_ms=TIME_MS,
        seq=TIME_MS,
        status=Status.READY,
        running=chance.randrange(256),
        waiting=chance.randrange(32),
        kv_used_ratio=chance.random(),
        kv_capacity_tokens=1_048_576,
        block_size=16,
        vram_free_bytes=chance.randrange(80 << 30),
        vram_total_bytes=80 << 30,
        latency_p99_ms=chance.random() * 10_000,
        ttft_p99_ms=chance.random() * 1000,
        tokens_per_second=chance.random() * 5000,
        prefix_hit_ratio=chance.random(),
        prompt_tokens_total=chance.randrange(1 << 30),
        prompts_total=chance.randrange(1 << 20),
        generation_tokens_total=chance.randrange(1 << 30),
        requests_finished_total=chance.randrange(1 << 20),
        models=("phi-3", "microsoft/Phi-3-mini-4k-instruct"),
        precision="fp16",
    )


def main() -> None:
    """Print the table and the rows as one JSON line; or play a role of the bench."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--role", choices=ROLES, help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.role:
        run(lambda: _play(given.role, given.port))
        return
    from bench.agent_latency import table  # noqa: PLC0415 - the roles have no use for it

    rows = measure()
    print(f"{NODES * ENGINES:,} endpoints on {NODES} nodes, {TICKS_PER_SECOND} ticks a second each")
    print(table(rows))
    print(json.dumps(rows))


if __name__ == "__main__":
    main()
