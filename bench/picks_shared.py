"""What it costs that processes of ext_proc tell one another their dispatches: `python -m bench.picks_shared`.

Two processes on a real Redis. One dispatches RATE times a second and tells; the other hears, and says how old what it
heard was. `record` is what a dispatch itself pays; telling and hearing is CPU time of either process a dispatch, its
event loop included.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import quantiles
from typing import Any, Final

from bench.redis_process import redis_server
from ext_proc.feed import SERVICE
from ext_proc.shared import SharedPicks
from tidegate.domain.pick.picker import ClusterPicker
from tidegate.domain.pick.record import DispatchRecord
from tidegate.domain.pick.settings import DEFAULT
from tidegate.runtime import run
from tidegate.store.redis import RedisStore

RATE: Final = 500
MARKS: Final = 20
"""Of a prompt of some 30 KiB."""
RECORDED: Final = 100_000
TARGET_RECORD_US: Final = 2.0
TARGET_DELAY_MS: Final = 10.0


def now_ms() -> float:
    """Unix time in milliseconds, with its fraction."""
    return time.time_ns() / 1e6


def dispatch() -> DispatchRecord:
    """One, at this moment."""
    marks = tuple(range(1 << 63, (1 << 63) + MARKS))
    return DispatchRecord("10.0.0.1:8000", now_ms(), 7500.0, 7756, 1, marks, tuple(range(400, 400 + MARKS)))


def measure(seconds: float = 4.0) -> list[dict[str, Any]]:
    """Rows of {name, value, unit, target}."""
    with tempfile.TemporaryDirectory() as folder, redis_server(Path(folder)) as (port, _):
        command = [sys.executable, "-m", "bench.picks_shared", "--hear", str(port)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as hearer:
            assert hearer.stdout is not None
            told = asyncio.run(_tell(port, seconds))
            hearer.wait(30)
            heard = json.loads(hearer.stdout.read())
    cuts = quantiles(heard["delays_ms"], n=100)
    figures = [
        ("a dispatch's own part", _record_us(), "µs", TARGET_RECORD_US),
        ("telling, a dispatch", told, "µs CPU", None),
        ("hearing, a dispatch", heard["cpu_us"], "µs CPU", None),
        ("heard after, p50", cuts[49], "ms", TARGET_DELAY_MS),
        ("heard after, p99", cuts[98], "ms", None),
        ("heard of what was told", heard["share"], "ratio", None),
    ]
    return [{"name": f"picks_shared: {n}", "value": v, "unit": u, "target": t} for n, v, u, t in figures]


def _record_us() -> float:
    async def fill() -> float:
        shared, record = SharedPicks(RedisStore("redis://127.0.0.1:1/0"), "a", lambda: 0), dispatch()
        shared.alone = False
        started = time.perf_counter()
        for _ in range(RECORDED):
            shared.record("phi-3", record)
        return (time.perf_counter() - started) / RECORDED * 1e6

    return asyncio.run(fill())


async def _tell(port: int, seconds: float) -> float:
    """CPU time in µs that a dispatch takes to be told."""
    store = RedisStore(f"redis://127.0.0.1:{port}/0")
    shared = SharedPicks(store, "teller", lambda: int(now_ms()))
    tasks = [asyncio.create_task(shared.publish()), asyncio.create_task(shared.meet(lambda *_: None))]
    await store.beat(SERVICE, "teller", {}, ttl_ms=600_000)
    while shared.alone:
        await asyncio.sleep(0.05)
    idle = await _cpu_of(seconds / 2, lambda: None)
    busy = await _cpu_of(seconds, lambda: shared.record("phi-3", dispatch()))
    while shared.told < round(seconds * RATE):
        await asyncio.sleep(0.05)
    await store.leave(SERVICE, "teller")
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await store.close()
    return (busy / (seconds * RATE) - idle / (seconds / 2 * RATE)) * 1e6


async def _cpu_of(seconds: float, each: Any) -> float:
    """CPU seconds of this process while `each` is called RATE times a second."""
    started, cpu = time.monotonic(), time.process_time()
    for number in range(round(seconds * RATE)):
        each()
        await asyncio.sleep(max(0.0, started + number / RATE - time.monotonic()))
    return time.process_time() - cpu


async def _hear(port: int) -> None:
    """Hear until the teller leaves; print what was heard."""
    store, delays = RedisStore(f"redis://127.0.0.1:{port}/0"), list[float]()
    shared, picker = SharedPicks(store, "hearer", lambda: int(now_ms())), ClusterPicker(DEFAULT, sample_ttl_ms=3000)
    picker.joined("10.0.0.1:8000", "10.0.0.1:8000")

    def heard(_: str, record: DispatchRecord, at_ms: int) -> None:
        delays.append(now_ms() - record.at_ms)
        picker.sent_elsewhere(record, at_ms)

    follow = asyncio.create_task(shared.follow(heard))
    await store.beat(SERVICE, "hearer", {}, ttl_ms=600_000)
    while not delays:
        await asyncio.sleep(0.05)
    cpu = time.process_time()
    while "teller" in (await store.present()).get(SERVICE, {}):
        await asyncio.sleep(0.25)
    spent = time.process_time() - cpu
    await asyncio.sleep(0.1)
    follow.cancel()
    await asyncio.gather(follow, return_exceptions=True)
    await store.close()
    total = len(delays) + shared.late
    print(json.dumps({"delays_ms": delays, "cpu_us": spent / total * 1e6, "share": len(delays) / total}))


def main() -> None:
    """Print the rows; or play the hearer."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hear", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.hear:
        run(lambda: _hear(given.hear))
        return
    for row in measure():
        print(f"{row['name'].removeprefix('picks_shared: '):28} {row['value']:10.2f} {row['unit']}")


if __name__ == "__main__":
    main()
