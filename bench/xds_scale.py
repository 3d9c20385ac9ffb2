"""The xDS server at 1,000 endpoints in 50 clusters before 50 Envoys: `python -m bench.xds_scale`.

The server is a process of its own, from desired state to bytes; the Envoys are gRPC streams with a connection each,
which ask and accept as Envoy does. Times are from the moment at which the server learns of new weights to the moment
at which a client holds them; both processes read the same monotonic clock.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry

from bench.processes import stop
from bench.xds_envoys import METHODS, Envoy, running
from tidegate.domain.topology import LbPolicy
from tidegate.runtime import now_ms, run
from xds_server.assembly import Assembler
from xds_server.cache import SnapshotCache
from xds_server.desired import Desired, DesiredCluster, DesiredEndpoint
from xds_server.metrics import XdsMetrics
from xds_server.server import DiscoveryServicer, Streams, start
from xds_server.type_urls import ROUTE

CLUSTERS = 50
ENDPOINTS = 20
ENVOYS = 50
HERTZ = 5
CHANGES = 40
TARGETS = {
    ("start of 50 Envoys", "start_seconds"): 3.0,
    ("one weight", "p99_ms"): 100.0,
    ("one weight amid reconnects", "p99_ms"): 100.0,
    (f"all weights at {HERTZ} Hz", "cpu_ratio"): 0.6,
    ("the server", "memory_mb"): 300.0,
}
UNITS = {
    "start_seconds": "s",
    "p50_ms": "ms",
    "p99_ms": "ms",
    "build_ms": "ms",
    "cpu_ratio": "of a core",
    "memory_mb": "MB",
    "responses": "responses",
    "kb": "kB",
    "reconnects": "reconnects",
}


def measure(changes: int = CHANGES, seconds: float = 5.0) -> list[dict[str, Any]]:
    """Rows of {name, value, unit, target}, first by delta, then by state of the world."""
    return [row for protocol in METHODS for row in asyncio.run(_measure(protocol, changes, seconds))]


async def _measure(protocol: str, changes: int, seconds: float) -> list[dict[str, Any]]:
    with _server() as server:
        began = time.monotonic()
        envoys = [Envoy(server.address, protocol) for _ in range(ENVOYS)]
        async with running(envoys):
            await asyncio.gather(*(e.started() for e in envoys))
            start = {"start_seconds": time.monotonic() - began, **_traffic(envoys)}
            found = {
                "start of 50 Envoys": start,
                "one weight": await _one_weight(server, envoys, changes),
                f"all weights at {HERTZ} Hz": await _all_weights(server, envoys, seconds),
                "a cluster more, to its route": await _new_cluster(server, envoys),
                "one weight amid reconnects": await _storm(server, envoys, changes),
                "return of 50 Envoys": await _return(envoys),
                "the server": {"memory_mb": server.memory_mb()},
            }
    return [_row(protocol, what, *figure) for what, figures in found.items() for figure in figures.items()]


def _row(protocol: str, what: str, figure: str, value: float) -> dict[str, Any]:
    target = TARGETS.get((what, figure))
    quantile = figure.removesuffix("_ms") + " " if figure.startswith("p") else ""
    return {
        "name": f"xds, {protocol}: {what}, {quantile}{UNITS[figure]}",
        "value": value,
        "unit": UNITS[figure],
        "target": target,
    }


async def _one_weight(server: Server, envoys: Sequence[Envoy], changes: int) -> dict[str, float]:
    before = _traffic(envoys)
    latencies = await _latencies(server, envoys, changes)
    return {**_quantiles(latencies), **_per(before, _traffic(envoys), changes)}


async def _latencies(server: Server, envoys: Sequence[Envoy], changes: int) -> list[float]:
    """Milliseconds from a change to each of these Envoys, one change after the other."""
    found: list[float] = []
    for _ in range(changes):
        waiting = [asyncio.ensure_future(envoy.next_endpoints()) for envoy in envoys]
        began = int(await server.say("one"))
        found += [(at - began) / 1e6 for at in await asyncio.wait_for(asyncio.gather(*waiting), 30)]
    return found


async def _all_weights(server: Server, envoys: Sequence[Envoy], seconds: float) -> dict[str, float]:
    before = _traffic(envoys)
    spent = json.loads(await server.say(f"all {seconds}"))
    return {
        "cpu_ratio": spent["cpu"] / spent["wall"],
        "build_ms": spent["build"] / spent["rounds"] * 1000,
        **_per(before, _traffic(envoys), spent["rounds"]),
    }


async def _new_cluster(server: Server, envoys: Sequence[Envoy]) -> dict[str, float]:
    before = _traffic(envoys)
    waiting = [asyncio.ensure_future(envoy.next_of(ROUTE)) for envoy in envoys]
    began = int(await server.say("cluster"))
    latencies = [(at - began) / 1e6 for at in await asyncio.wait_for(asyncio.gather(*waiting), 30)]
    return {**_quantiles(latencies), **_per(before, _traffic(envoys), 1)}


async def _storm(server: Server, envoys: Sequence[Envoy], changes: int) -> dict[str, float]:
    """Half of the Envoys reconnect without end; the other half is timed."""
    half = len(envoys) // 2
    unrest = [asyncio.create_task(_reconnect_for_ever(envoy)) for envoy in envoys[half:]]
    try:
        latencies = await _latencies(server, envoys[:half], changes)
    finally:
        for task in unrest:
            task.cancel()
        await asyncio.gather(*unrest, return_exceptions=True)
    reconnects = sum(envoy.connections - 1 for envoy in envoys[half:])
    return {**_quantiles(latencies), "reconnects": reconnects}


async def _reconnect_for_ever(envoy: Envoy) -> None:
    """Each time with nothing in hand, as after a restart."""
    while True:
        envoy.held.clear()
        await envoy.reconnect()
        await envoy.started()


async def _return(envoys: Sequence[Envoy]) -> dict[str, float]:
    """Every Envoy comes back to a server of the content that it holds."""
    for envoy in envoys:
        await envoy.reconnect()
        await envoy.started()
    before = _traffic(envoys)
    await asyncio.gather(*(envoy.reconnect() for envoy in envoys))
    await asyncio.gather(*(envoy.started() for envoy in envoys))
    await asyncio.sleep(1)  # what is not sent cannot be waited for
    return _per(before, _traffic(envoys), 1)


@dataclass
class Server:
    """The server's process, and the lines that it takes."""

    process: subprocess.Popen[str]
    address: str

    async def say(self, line: str) -> str:
        """Send one line, and give the line that answers it."""
        return await asyncio.to_thread(self._say, line)

    def _say(self, line: str) -> str:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(line, file=self.process.stdin, flush=True)
        return self.process.stdout.readline().strip()

    def memory_mb(self) -> float:
        """The most resident memory that the process had, in MB."""
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        return next(int(line.split()[1]) for line in text.splitlines() if line.startswith("VmHWM")) * 1024 / 1e6


@contextmanager
def _server() -> Iterator[Server]:
    command = [sys.executable, "-m", "bench.xds_scale", "--serve"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        if not address:
            raise RuntimeError("the xDS server did not start")
        yield Server(process, address)
    finally:
        stop(process)


class _Served:
    """The server's side: a world whose weights and clusters change on demand."""

    def __init__(self) -> None:
        self.cache, self.assembler = SnapshotCache(), Assembler()
        self.clusters, self.turn = CLUSTERS, 0
        self.serve(_world(self.clusters, 0))

    def serve(self, desired: Desired) -> None:
        self.cache.set(self.assembler.snapshot(desired))

    async def obey(self, line: str) -> str:
        word, *rest = line.split()
        began = time.monotonic_ns()
        if word == "all":
            return json.dumps(await self._all(float(rest[0])))
        self.turn += 1
        self.clusters += word == "cluster"
        self.serve(_world(self.clusters, 0, first=self.turn))
        return str(began)

    async def _all(self, seconds: float) -> dict[str, float]:
        cpu, wall, build = time.process_time(), time.monotonic(), 0.0
        rounds = round(seconds * HERTZ)
        for number in range(rounds):
            began = time.process_time()
            self.serve(_world(self.clusters, number + 1, first=self.turn))
            build += time.process_time() - began
            await asyncio.sleep(max(0.0, wall + (number + 1) / HERTZ - time.monotonic()))
        spent = {"cpu": time.process_time() - cpu, "wall": time.monotonic() - wall}
        return {**spent, "build": build, "rounds": rounds}


async def _serve() -> None:
    served = _Served()
    streams = Streams(XdsMetrics(CollectorRegistry()))
    _, address = await start("127.0.0.1:0", DiscoveryServicer(served.cache, streams, now_ms))
    print(address, flush=True)
    lines: asyncio.Queue[str] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    def listen() -> None:
        for line in sys.stdin:
            loop.call_soon_threadsafe(lines.put_nowait, line)

    threading.Thread(target=listen, daemon=True).start()
    while True:
        print(await served.obey(await lines.get()), flush=True)


def _world(clusters: int, shift: int, first: int = 0) -> Desired:
    """Every weight depends on `shift`; that of one endpoint on `first` as well."""
    return Desired(
        listen_host="127.0.0.1",
        listen_port=10000,
        max_request_bytes=1 << 25,
        expose_routing=False,
        ext_proc_host="127.0.0.1",
        ext_proc_port=18001,
        clusters=tuple(
            DesiredCluster(
                name=name,
                models=(f"model-{name}",),
                lb=LbPolicy.PICK,
                endpoints=tuple(
                    _endpoint(number, e, shift + (first if number + e == 0 else 0)) for e in range(ENDPOINTS)
                ),
            )
            for number, name in enumerate(_names(clusters))
        ),
    )


def _endpoint(cluster: int, number: int, shift: int) -> DesiredEndpoint:
    ip = f"10.{cluster // 250}.{cluster % 250}.{number + 1}"
    weight = 1 + (cluster * 31 + number * 17 + shift * 7) % 1000
    return DesiredEndpoint(address=f"{ip}:8000", ip=ip, port=8000, weight=weight)


def _names(clusters: int) -> list[str]:
    return [f"c{number}" for number in range(clusters)]


def _traffic(envoys: Sequence[Envoy]) -> dict[str, float]:
    return {"responses": sum(e.responses for e in envoys), "kb": sum(e.received_bytes for e in envoys) / 1000}


def _per(before: dict[str, float], after: dict[str, float], rounds: float) -> dict[str, float]:
    return {name: (after[name] - before[name]) / rounds for name in after}


def _quantiles(latencies: list[float]) -> dict[str, float]:
    ordered = sorted(latencies)
    return {"p50_ms": ordered[len(ordered) // 2], "p99_ms": ordered[int(len(ordered) * 0.99)]}


def main() -> None:
    """Print every figure beside its target."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    if parser.parse_args().serve:
        run(_serve)
        return
    for row in measure():
        target = "" if row["target"] is None else f"≤ {row['target']:g}"
        print(f"{row['name']:<60}{row['value']:>10.4g}  {target}")


if __name__ == "__main__":
    main()
