"""The controller at 1,000 endpoints that publish ten times a second: `python -m bench.controller_tick`.

Time and CPU of a tick, what of it is the rule, and how many clusters are written while every sample moves and while
none does. CPU is told for a tick and as a share of a core at four ticks a second, so that it means the same on a
machine too busy to keep the pace.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from bench.agent_fleet import CLUSTERS, ENGINES, NODES, TTL_MS, _role
from bench.load.asyncio_client import quantile
from bench.redis_process import calls, redis_server
from controller.controller import Controller
from controller.decide import decide_all
from tidegate.domain.topology import Cluster, Topology
from tidegate.domain.weights import Rules
from tidegate.store.clock import StoreClock
from tidegate.store.redis import RedisStore

TICK_SECONDS: Final = 0.25
LONG_MS: Final = 3_600_000
TARGETS: Final = {"wall": 60.0, "cpu": 0.3}


def measure(seconds: float = 10.0) -> list[dict[str, Any]]:
    """Rows of {name, value, unit, target}."""
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as name, redis_server(Path(name)) as (port, _):
        with _role("nodes", port):
            time.sleep(1)
            moving = asyncio.run(_ticks(port, seconds))
        still = asyncio.run(_ticks(port, seconds, stays=True))
    return [
        _row("tick, p50", quantile(moving["wall"], 0.5), "ms", None),
        _row("tick, p99", quantile(moving["wall"], 0.99), "ms", TARGETS["wall"]),
        _row("CPU of a tick", moving["cpu"] / len(moving["wall"]) * 1000, "ms", None),
        _row("CPU at four ticks a second", moving["cpu"] / len(moving["wall"]) / TICK_SECONDS, "of a core", 0.3),
        _row("the rule alone", moving["rule"], "ms of CPU a tick", None),
        _row("clusters written, every sample moves", moving["written"], "a tick", None),
        _row("clusters written, nothing moves", still["written"], "a tick", None),
        _row("commands that write to Redis, nothing moves", still["writes"], "a tick", None),
    ]


def _row(name: str, value: float, unit: str, target: float | None) -> dict[str, Any]:
    return {"name": f"controller at 1,000 endpoints: {name}", "value": value, "unit": unit, "target": target}


async def _ticks(port: int, seconds: float, *, stays: bool = False) -> dict[str, Any]:
    store = RedisStore(f"redis://127.0.0.1:{port}/0", timeout_seconds=10)
    clock = StoreClock(store)
    topology = Topology(tuple(Cluster(f"model-{number}", (f"m{number}",)) for number in range(CLUSTERS)))
    controller = Controller(store, topology, clock=clock, sample_ttl_ms=LONG_MS if stays else TTL_MS)
    keepers = [asyncio.create_task(clock.run()), asyncio.create_task(controller.keep_lead())]
    try:
        return await _followed(controller, port, seconds, stays=stays)
    finally:
        for keeper in keepers:
            keeper.cancel()
        await controller.resign()
        await store.close()


async def _followed(controller: Controller, port: int, seconds: float, *, stays: bool) -> dict[str, Any]:
    await asyncio.sleep(2)  # the lease of the one before, and the members
    for _ in range(16 if stays else 4):
        await controller.tick()
        await asyncio.sleep(TICK_SECONDS)
    wall, cpu, written, before = [], 0.0, 0, calls(port, "exec")
    began = time.monotonic()
    while time.monotonic() - began < seconds:
        end = time.monotonic() + TICK_SECONDS
        started, spent = time.perf_counter(), time.process_time()
        written += await controller.tick()
        cpu += time.process_time() - spent
        wall.append((time.perf_counter() - started) * 1000)
        await asyncio.sleep(max(0.0, end - time.monotonic()))
    writes = calls(port, "exec") - before
    return {
        "wall": sorted(wall),
        "cpu": cpu,
        "written": written / len(wall),
        "writes": writes / len(wall),
        "rule": _rule(controller),
    }


def _rule(controller: Controller) -> float:
    """Milliseconds of CPU for deciding on what was looked at last."""
    world, state = controller._world, controller._state  # noqa: SLF001 - a figure of its inside
    assert world is not None
    assert state is not None
    began = time.process_time()
    for number in range(10):
        later = replace(world, now_ms=world.now_ms + 250 * (number + 1))
        state, _ = decide_all(controller.topology, later, state, sample_ttl_ms=LONG_MS, rules=Rules())
    return (time.process_time() - began) * 100


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=10.0)
    assert NODES * ENGINES == 1000
    print(json.dumps(measure(parser.parse_args().seconds), indent=1))
