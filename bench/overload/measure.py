"""Three times what the engines can serve, for a minute: `python -m bench --only overload --seconds 15`.

First how fast they are, then the urgent requests alone, then those beside two classes that want 2.9 times as much as
there is; some clients hang up. Then nothing, until the queue is empty.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from bench.load.asyncio_client import quantile
from bench.overload.figures import part, ratio, ttfts, unanswered
from bench.overload.load import HUNG_UP, Kind, Outcome, Shape, saturate, send_all
from bench.overload.world import World, world

SECONDS: Final = 60.0
ENGINES: Final = 2
KV_BLOCKS: Final = 1024
TIMES: Final = 3.0
URGENT_RATIO: Final = 0.1
"""Urgent requests, as a part of what the engines can serve."""
URGENT_TOKENS: Final = 1000
HANG_UP_RATIO: Final = 0.05
EMPTY_SECONDS: Final = 60.0
MIB: Final = 1 << 20


def measure(seconds: float = SECONDS) -> list[dict[str, Any]]:
    """Rows of {name, value, unit, target}; `target` is None where there is none."""
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as name, world(Path(name), ENGINES, KV_BLOCKS) as one:
        return asyncio.run(_measured(one, seconds))


def kinds(capacity: float) -> list[Kind]:
    """The urgent ones, and two classes that share the rest of TIMES × `capacity` evenly."""
    each = (TIMES - URGENT_RATIO) * capacity / 2
    return [
        urgent(capacity),
        Kind(name="gold", per_second=each, headers={"x-tier": "gold"}, hang_up_ratio=HANG_UP_RATIO),
        Kind(name="silver", per_second=each, headers={"x-tier": "silver"}, hang_up_ratio=HANG_UP_RATIO),
    ]


def urgent(capacity: float) -> Kind:
    """Requests of high priority."""
    return Kind(
        name="urgent",
        per_second=URGENT_RATIO * capacity,
        headers={"x-tidegate-priority": "high"},
        prompt_tokens=URGENT_TOKENS,
    )


async def _measured(one: World, seconds: float) -> list[dict[str, Any]]:
    shape = Shape()
    await saturate(one.gateway, shape, 2, 3.0)
    capacity = await saturate(one.gateway, shape, 30 * ENGINES, 12.0)
    alone = await send_all(one.gateway, [urgent(capacity)], shape, max(10.0, seconds / 3))
    before = one.memory_bytes()
    began = time.monotonic()
    sending = asyncio.create_task(send_all(one.gateway, kinds(capacity), shape, seconds))
    await asyncio.sleep(seconds / 4)
    early = await asyncio.to_thread(one.served)
    depth, memory = await _watched(one, began + seconds)
    late = await asyncio.to_thread(one.served)
    outcomes = await sending
    emptied = await _emptied(one)
    steady = part(early, late, "gold", ("gold", "silver"))
    eased = one.metrics()['tidegate_queue_outcomes_total{cluster="c",outcome="eased"}']
    return _rows(capacity, alone, outcomes, steady, depth, (memory - before) / MIB, emptied, eased)


async def _watched(one: World, until: float) -> tuple[float, int]:
    """The longest queue and the most memory that were seen."""
    depth, memory = 0.0, 0
    while time.monotonic() < until:
        depth = max(depth, await asyncio.to_thread(one.waiting))
        memory = max(memory, one.memory_bytes())
        await asyncio.sleep(0.5)
    return depth, memory


async def _emptied(one: World) -> float:
    """Requests that still wait, EMPTY_SECONDS after the last answer or as soon as there are none."""
    end = time.monotonic() + EMPTY_SECONDS
    while (left := await asyncio.to_thread(one.waiting)) and time.monotonic() < end:
        await asyncio.sleep(0.2)
    return left


def _rows(
    capacity: float,
    alone: list[Outcome],
    outcomes: list[Outcome],
    gold: float,
    depth: float,
    grown_mib: float,
    left: float,
    eased: float,
) -> list[dict[str, Any]]:
    loaded, unloaded = ttfts(outcomes, "urgent"), ttfts(alone, "urgent")
    refused = sum(one.status == "429" for one in outcomes)
    return [
        _row("capacity", capacity, "requests/s", None),
        _row("offered", len(outcomes), "requests", None),
        _row("urgent alone, TTFT p50", 1000 * quantile(unloaded, 0.5), "ms", None),
        _row("urgent in overload, TTFT p50", 1000 * quantile(loaded, 0.5), "ms", None),
        _row("urgent, TTFT p50 over unloaded", ratio(loaded, unloaded, 0.5), "times", 1.5),
        _row("urgent, TTFT p90 over unloaded", ratio(loaded, unloaded, 0.9), "times", 1.5),
        _row("urgent refused", sum(one.kind == "urgent" and one.status != "200" for one in outcomes), "", 0.0),
        _row("share of the class of weight 3 to 1, off 0.75", abs(gold - 0.75) / 0.75, "", 0.1),
        _row("let through to Envoy's weights", eased, "requests", 0.0),
        _row("longest queue", depth, "requests", None),
        _row("memory of ext_proc, more than before", grown_mib, "MiB", 64.0),
        _row("refused with 429", refused, "requests", None),
        _row("hung up", sum(one.status == HUNG_UP for one in outcomes), "requests", None),
        _row("without an answer", unanswered(outcomes), "requests", 0.0),
        _row("waiting after the end", left, "requests", 0.0),
    ]


def _row(name: str, value: float, unit: str, target: float | None) -> dict[str, Any]:
    return {"name": f"overload: {name}", "value": value, "unit": unit, "target": target}


if __name__ == "__main__":
    for row in measure():
        print(f"{row['name']:60} {row['value']:12.3f} {row['unit']:12} {row['target'] or ''}")
