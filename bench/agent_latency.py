"""The agent at eight engines on a node: `python -m bench.agent_latency`.

From an engine's queue changing to the Redis key showing it, and what the agent spends at 10 scrapes a second of pages
of 120 KB. The engines are one process that sends pages made before, so that the machine is the agent's; what an
engine in Python would pay for writing such a page is told beside. The key is read every 2 ms.
"""

from __future__ import annotations

import asyncio
import json
import random
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from bench import processes
from bench.engine_page import PAGE_BYTES, render_seconds
from bench.load.asyncio_client import quantile
from bench.redis_process import redis_server
from tidegate.store import commands
from tidegate.store.redis import RedisStore
from tidegate.store.schema import Keys

ENGINES: Final = 8
SECONDS: Final = 15.0
SCRAPES_PER_SECOND: Final = 10
POLL_SECONDS: Final = 0.002
TARGETS: Final = {"p50": 80.0, "p99": 200.0, "cpu": 0.12}


def measure(seconds: float = SECONDS) -> list[dict[str, Any]]:
    """Rows of {name, value, unit, target}; `target` is None where there is none."""
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as name:
        folder = Path(name)
        with redis_server(folder) as (port, _), _engines() as engines:
            url = f"redis://127.0.0.1:{port}/0"
            with _agent(folder, url, engines.ports) as pid:
                delays, agent, servers = _watch(url, engines, pid, seconds)
    rendering = render_seconds() * SCRAPES_PER_SECOND
    return [
        _row("queue to key, p50", quantile(delays, 0.5), "ms", TARGETS["p50"]),
        _row("queue to key, p99", quantile(delays, 0.99), "ms", TARGETS["p99"]),
        _row("changes seen", len(delays), "", None),
        _row("agent", agent, "of a core", TARGETS["cpu"]),
        _row("an engine, sending the page", servers / ENGINES, "of a core", None),
        _row("an engine in Python, writing it too", rendering, "of a core", None),
    ]


def _row(name: str, value: float, unit: str, target: float | None) -> dict[str, Any]:
    return {"name": f"agent: {name}", "value": value, "unit": unit, "target": target}


class _Engines:
    """The process of the engines."""

    def __init__(self, process: subprocess.Popen[str], ports: list[int]) -> None:
        self.process, self.ports = process, ports

    def wait(self, engine: int, count: int) -> float:
        """Change a queue; when it changed, in seconds of the monotonic clock."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{engine} {count}\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline()) / 1e9


@contextmanager
def _engines() -> Iterator[_Engines]:
    command = [sys.executable, "-m", "bench.engine_page", str(ENGINES)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        ports = [int(port) for port in process.stdout.readline().split()]
        if len(ports) != ENGINES:
            raise RuntimeError("the engines did not start")
        yield _Engines(process, ports)
    finally:
        processes.stop(process)


@contextmanager
def _agent(folder: Path, url: str, ports: list[int]) -> Iterator[int]:
    """`tidegate agent` on the engines until exit; yields its pid once all of them are in Redis."""
    command = [sys.executable, "-m", "tidegate.cli.main", "agent", "--redis-url", url, "--node", "bench"]
    for number, port in enumerate(ports):
        command += ["--engine", f"c{number}=127.0.0.1:{port}"]
    log = folder / "agent.log"
    process = processes.start(command, log)
    try:
        processes.wait_for(lambda: asyncio.run(_registered(url)) == len(ports), process, log)
        yield process.pid
    finally:
        processes.stop(process)


async def _registered(url: str) -> int:
    store = RedisStore(url)
    try:
        return len(await store.samples())
    finally:
        await store.close()


def _watch(url: str, engines: _Engines, pid: int, seconds: float) -> tuple[list[float], float, float]:
    """Delays in ms, and what the agent and the engines' process spent, in cores."""
    port = int(url.rpartition(":")[2].partition("/")[0])
    with socket.create_connection(("127.0.0.1", port), timeout=5) as redis:
        began, spent = time.perf_counter(), _spent(pid, engines)
        delays = _delays(_Queues(redis, engines.ports), engines, seconds)
        passed, after = time.perf_counter() - began, _spent(pid, engines)
    return delays, (after[0] - spent[0]) / passed, (after[1] - spent[1]) / passed


def _spent(pid: int, engines: _Engines) -> tuple[float, float]:
    return processes.cpu_seconds([pid]), processes.cpu_seconds([engines.process.pid])


class _Queues:
    """What the keys of the engines show, asked in one blocking round trip that costs next to nothing."""

    def __init__(self, redis: socket.socket, ports: list[int]) -> None:
        keys = [Keys().endpoint(f"c{number}", f"127.0.0.1:{port}") for number, port in enumerate(ports)]
        self._asked = commands.packed([("HGET", key, "waiting") for key in keys])
        self._redis, self._count = redis, len(ports)

    def shown(self) -> list[bytes]:
        """The replies: the queue of each engine in digits, or what says that there is none."""
        self._redis.sendall(self._asked)
        lines: list[bytes] = []
        raw = b""
        while len(lines) < self._count:
            raw += self._redis.recv(4096)
            lines = [line for line in raw.split(b"\r\n")[:-1] if line == b"$-1" or not line.startswith(b"$")]
        return lines


def _delays(queues: _Queues, engines: _Engines, seconds: float) -> list[float]:
    """Each engine's queue changes at random moments, 50 to 250 ms after the last change was seen."""
    chance = random.Random(1)
    waiting = [0] * ENGINES
    due = [time.monotonic() + chance.uniform(0.05, 0.25) for _ in waiting]
    changed: dict[int, float] = {}
    delays: list[float] = []
    end = time.monotonic() + seconds
    while (now := time.monotonic()) < end or changed:
        for engine in [one for one in range(ENGINES) if one not in changed and due[one] <= now < end]:
            waiting[engine] += 1
            changed[engine] = engines.wait(engine, waiting[engine])
        shown = queues.shown() if changed else []
        now = time.monotonic()
        for engine in [one for one in changed if shown[one] == b"%d" % waiting[one]]:
            delays.append((now - changed.pop(engine)) * 1000)
            due[engine] = now + chance.uniform(0.05, 0.25)
        if now > end + 10:
            raise RuntimeError(f"Redis does not show the queues of {sorted(changed)}")
        time.sleep(POLL_SECONDS)
    return sorted(delays)


def table(rows: list[dict[str, Any]]) -> str:
    """The rows for a terminal."""
    lines = [
        f"{row['name']:<58}{row['value']:>10.3f} {row['unit']:<12}"
        + ("" if row["target"] is None else f"target ≤ {row['target']:g}")
        for row in rows
    ]
    return "\n".join(lines)


def main() -> None:
    """Print the table and the rows as one JSON line."""
    rows = measure()
    print(f"{ENGINES} engines, {PAGE_BYTES / 1000:.0f} KB pages, {SCRAPES_PER_SECOND} scrapes a second each")
    print(table(rows))
    print(json.dumps(rows))


if __name__ == "__main__":
    main()
