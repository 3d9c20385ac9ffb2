"""`tidegate xds`, controller included, at 1,000 endpoints in 50 clusters: `python -m bench.xds_process`.

A real Redis; agents that publish every endpoint ten times a second, or leave it at what they published once; one
simulated Envoy. CPU is that of the process; latencies are from an HSET of one weight to the assignment at the Envoy.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Final

from bench import processes
from bench.load.asyncio_client import quantile
from bench.ports import accepts, free_port
from bench.redis_process import redis_server
from bench.xds_envoys import Envoy, running
from tidegate.domain.sample import EndpointSample, NodeSample, NodeTick, Status
from tidegate.store import commands
from tidegate.store.redis import RedisStore
from tidegate.store.schema import Keys

CLUSTERS: Final = 50
NODES: Final = 50
ENDPOINTS: Final = 20
VARIANTS: Final = 4
HERTZ: Final = 10
TTL_MS: Final = 3_000
LONG_MS: Final = 3_600_000
TIME_MS: Final = 1_700_000_000_000  # stands in the packed pipelines for the time at which they are sent
ORDERS: Final = 30
MOST_WAITING_BYTES: Final = 1 << 20
PATIENCE_SECONDS: Final = 60
"""A busy machine is late, and the figure says so."""


def measure(seconds: float = 8.0) -> list[dict[str, Any]]:
    """Rows of {name, value, unit, target}."""
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as name, redis_server(Path(name)) as (port, redis_pid):
        return asyncio.run(_measure(Path(name), port, redis_pid, seconds))


async def _measure(folder: Path, port: int, redis_pid: int, seconds: float) -> list[dict[str, Any]]:
    store = RedisStore(f"redis://127.0.0.1:{port}/0", timeout_seconds=10)
    try:
        for node in range(NODES):
            await store.publish(_tick(node, random.Random(node)), ttl_ms=LONG_MS)
        with _xds(folder, port) as (pid, listen):
            envoy = Envoy(listen, "delta")
            async with running([envoy]):
                await asyncio.wait_for(envoy.started(), 60)
                rows = await _figures("nothing moves", store, envoy, (pid, redis_pid), seconds)
                async with _agents(port):
                    rows += await _figures("every sample moves", store, envoy, (pid, redis_pid), seconds)
    finally:
        await store.close()
    return rows


async def _figures(
    what: str, store: RedisStore, envoy: Envoy, pids: tuple[int, int], seconds: float
) -> list[dict[str, Any]]:
    await asyncio.sleep(2)
    began, before = time.monotonic(), [processes.cpu_seconds([pid]) for pid in pids]
    await asyncio.sleep(seconds)
    passed = time.monotonic() - began
    spent = [(processes.cpu_seconds([pid]) - was) / passed for pid, was in zip(pids, before, strict=True)]
    times = [await _order(number, store, envoy) for number in range(ORDERS)]
    return [
        _row(f"{what}, CPU of xds", spent[0], "of a core"),
        _row(f"{what}, CPU of Redis", spent[1], "of a core"),
        _row(f"{what}, HSET to assignment, p50", quantile(sorted(times), 0.5), "ms"),
        _row(f"{what}, HSET to assignment, p99", quantile(sorted(times), 0.99), "ms"),
    ]


def _row(name: str, value: float, unit: str) -> dict[str, Any]:
    return {"name": f"xds at 1,000 endpoints: {name}", "value": value, "unit": unit, "target": None}


async def _order(number: int, store: RedisStore, envoy: Envoy) -> float:
    """Milliseconds until the Envoy holds other endpoints of one cluster; its replica starts or stops serving."""
    await asyncio.sleep(random.uniform(0.3, 0.6))
    held = envoy.held["type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment"]
    version, began = held["c0"], time.monotonic()
    await store.set_field("weight:c0", _address(0, 0), str(0 if number % 2 == 0 else 1000))
    async with asyncio.timeout(PATIENCE_SECONDS):
        while held["c0"] == version:
            await asyncio.sleep(0.001)
    return (time.monotonic() - began) * 1000


@contextmanager
def _xds(folder: Path, redis_port: int) -> Iterator[tuple[int, str]]:
    port = free_port()
    clusters = [{"name": f"c{number}", "models": [f"m{number}"], "lb": "weighted"} for number in range(CLUSTERS)]
    (folder / "bench.json").write_text(json.dumps({"gateway": {"listen": "127.0.0.1:10000"}, "clusters": clusters}))
    command = [sys.executable, "-m", "tidegate.cli.main", "xds", "--config", str(folder / "bench.json")]
    command += ["--redis-url", f"redis://127.0.0.1:{redis_port}/0", "--listen", f"127.0.0.1:{port}"]
    log = folder / "xds.log"
    process = processes.start(command, log)
    try:
        processes.wait_for(lambda: accepts(port), process, log)
        yield process.pid, f"127.0.0.1:{port}"
    finally:
        processes.stop(process)


class _Ignore(asyncio.Protocol):
    """Reads the replies and forgets them."""


@asynccontextmanager
async def _agents(port: int) -> AsyncIterator[None]:
    """Each node publishes ten times a second, spread evenly."""
    keys, loop = Keys(), asyncio.get_running_loop()
    pipelines = [
        [
            commands.packed(
                [("MULTI",), *commands.publish(keys, _tick(node, random.Random(variant)), TTL_MS), ("EXEC",)]
            )
            for variant in range(VARIANTS)
        ]
        for node in range(NODES)
    ]
    connection, _ = await loop.create_connection(_Ignore, "127.0.0.1", port)

    async def publish() -> None:
        began, sent = time.monotonic(), 0
        while True:
            due = int((time.monotonic() - began) * NODES * HERTZ)
            sent = max(sent, due - NODES)  # what a busy machine did not send in time is not sent late
            while sent < due and connection.get_write_buffer_size() < MOST_WAITING_BYTES:
                payload = pipelines[sent % NODES][sent // NODES % VARIANTS]
                connection.write(payload.replace(b"%d" % TIME_MS, b"%d" % (time.time_ns() // 1_000_000)))
                sent += 1
            await asyncio.sleep(0.002)

    task = asyncio.create_task(publish())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        connection.close()


def _tick(node: int, chance: random.Random) -> NodeTick:
    """One node has the endpoints of one cluster."""
    samples = tuple(_sample(node, number, chance) for number in range(ENDPOINTS))
    name = f"gpu-node-{node}"
    return NodeTick(node=NodeSample(node=name, sampled_at_ms=TIME_MS, seq=1, nvml="ok", gpus={}), endpoints=samples)


def _sample(node: int, number: int, chance: random.Random) -> EndpointSample:
    return EndpointSample(
        cluster=f"c{node}",
        address=_address(node, number),
        node=f"gpu-node-{node}",
        sampled_at_ms=TIME_MS,
        seq=1,
        status=Status.READY,
        running=chance.randrange(256),
        waiting=chance.randrange(32),
        kv_used_ratio=chance.random(),
        kv_capacity_tokens=1_048_576,
        block_size=16,
        latency_p99_ms=chance.random() * 10_000,
        tokens_per_second=chance.random() * 5000,
        prompt_tokens_total=chance.randrange(1 << 30),
        prompts_total=chance.randrange(1 << 20),
        models=(f"m{node}",),
    )


def _address(node: int, number: int) -> str:
    return f"10.0.{node}.{number + 1}:8000"


def main() -> None:
    """Print every figure, and all as one JSON line."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    rows = measure()
    for row in rows:
        print(f"{row['name']:<80}{row['value']:>9.3g} {row['unit']}")
    print(json.dumps(rows))


if __name__ == "__main__":
    main()
