"""What choosing a replica costs: `python -m bench.pick_cost`.

A fleet under load, so that every term has a say: replicas with different queues, half of them holding a part of the
prompt, which is one of 4 KB with a mark after each 512 bytes. `pick` decides; `sent` counts the dispatch and keeps the
prefix index; `sample` takes a replica's sample in. Times are of the processor, the least of
many batches. The index is filled to its bound over 1,000 replicas, prompts partly shared, and its memory is what Python
allocated for it.
"""

from __future__ import annotations

import gc
import random
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from time import thread_time_ns
from typing import Any, Final

from tidegate.domain.pick.picker import ClusterPicker
from tidegate.domain.pick.prefix import MOST_ENTRIES, PrefixIndex
from tidegate.domain.pick.settings import PickSettings
from tidegate.domain.pick.work import Work
from tidegate.domain.sample import EndpointSample, Status

TARGETS_US: Final = {8: 30.0, 16: 60.0, 256: 400.0}
INDEX_TARGET_BYTES: Final = 160_000_000
REPLICAS_OF_INDEX: Final = 1000
MARKS: Final = 8
MARK_TOKENS: Final = 128
SYSTEMS: Final = 16
PROMPTS: Final = 200
NOW: Final = 1_800_000_000_000.0
BUDGET_SECONDS: Final = 0.6


def fleet(replicas: int, seed: int = 1) -> tuple[ClusterPicker, list[Work]]:
    """A picker before busy replicas, and prompts that are partly known to them."""
    rng = random.Random(seed)
    picker = ClusterPicker(PickSettings(), sample_ttl_ms=3000)
    works = [_work(rng) for _ in range(PROMPTS)]
    for number in range(replicas):
        picker.joined(address(number), address(number))
        picker.sampled(replace(sample(number, rng), sampled_at_ms=int(NOW) - 60_000), NOW - 60_000)
        picker.sampled(sample(number, rng), NOW)
    for work in works:
        for number in rng.sample(range(replicas), replicas // 2):
            picker.sent(address(number), work, NOW)
    return picker, works


def address(number: int) -> str:
    """Of a replica."""
    return f"10.0.{number // 250}.{number % 250}:8000"


def sample(number: int, rng: random.Random) -> EndpointSample:
    """Of a busy replica."""
    return EndpointSample(
        cluster="c",
        address=address(number),
        node="n",
        sampled_at_ms=int(NOW),
        seq=1,
        status=Status.READY,
        running=rng.randrange(60),
        waiting=rng.randrange(4),
        kv_used_ratio=rng.random() * 0.5,
        kv_capacity_tokens=10_000_000,
        block_size=16,
        prompts_total=10,
        prompt_tokens_total=10_000,
    )


def _work(rng: random.Random) -> Work:
    system = rng.randrange(SYSTEMS)
    marks = (system, *(rng.getrandbits(64) for _ in range(MARKS - 1)))
    ends = tuple(MARK_TOKENS * (n + 1) for n in range(MARKS))
    return Work(prompt_tokens=ends[-1] + 5, output_tokens=200, marks=marks, ends=ends)


def measure() -> list[dict[str, Any]]:
    """Rows of {name, pick_us, sent_us, sample_us, target_us}, one a size of the fleet."""
    return [_row(replicas, target) for replicas, target in TARGETS_US.items()]


def index_bytes(replicas: int = REPLICAS_OF_INDEX, entries: int = MOST_ENTRIES) -> int:
    """Memory of an index that is full."""
    rng = random.Random(2)
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    index = PrefixIndex(entries)
    for slot in range(replicas):
        index.add(slot, 1e9)
    ends = tuple(MARK_TOKENS * (n + 1) for n in range(MARKS))
    while len(index) < 0.99 * entries:
        for slot in range(replicas):
            for _ in range(8):
                index.put(slot, (rng.randrange(SYSTEMS), *(rng.getrandbits(64) for _ in range(MARKS - 1))), ends)
    used = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    return used


def figures() -> list[dict[str, Any]]:
    """The rows as `make bench` shows them."""
    shown = []
    for row in measure():
        name = f"pick: {row['name']}"
        shown.append({"name": f"{name}, decision", "value": row["pick_us"], "unit": "µs", "target": row["target_us"]})
        shown.append({"name": f"{name}, dispatch", "value": row["sent_us"], "unit": "µs", "target": None})
        shown.append({"name": f"{name}, sample", "value": row["sample_us"], "unit": "µs", "target": None})
    name = f"pick: index of {REPLICAS_OF_INDEX:,} replicas, full"
    shown.append({"name": name, "value": index_bytes() / 1e6, "unit": "MB", "target": INDEX_TARGET_BYTES / 1e6})
    return shown


def _row(replicas: int, target: float) -> dict[str, Any]:
    picker, works = fleet(replicas)
    rng, turn = random.Random(3), count()
    samples = [sample(number, rng) for number in range(replicas)]
    return {
        "name": f"{replicas} replicas",
        "pick_us": _least(lambda: picker.pick(works[next(turn) % PROMPTS], NOW)),
        "sample_us": _least(lambda: picker.sampled(samples[next(turn) % replicas], NOW)),
        "sent_us": _least(lambda: picker.sent(address(next(turn) % replicas), works[next(turn) % PROMPTS], NOW)),
        "target_us": target,
    }


def _least(call: Callable[[], object], batch: int = 20) -> float:
    """The least mean of a batch of calls, in µs of the processor."""
    least, spent = float("inf"), 0
    while spent < BUDGET_SECONDS * 1e9:
        started = thread_time_ns()
        for _ in range(batch):
            call()
        took = thread_time_ns() - started
        least, spent = min(least, took / batch), spent + took
    return least / 1e3


def main() -> None:
    """Print the rows."""
    for row in figures():
        target = "" if row["target"] is None else f"  (at most {row['target']:.0f})"
        print(f"{row['name']:<48} {row['value']:>8.1f} {row['unit']}{target}")


if __name__ == "__main__":
    main()
