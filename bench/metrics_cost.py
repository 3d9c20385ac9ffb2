"""What metrics and traces cost ext_proc: `python -m bench.metrics_cost`.

Three processes of the whole service, as its app wires it, on a store in memory: one whose recorders do nothing, one
with metrics that is scraped each second as Prometheus does it, and one with spans of a hundredth of the requests
besides. One client loads them by turns, a short while each, so that a noisy machine treats them alike; what counts is
the CPU of the process per request, of its scrapes too, compared within each round.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import json
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import aiohttp
import grpc
from envoy.service.ext_proc.v3 import external_processor_pb2 as pb
from grpc import aio

from bench.as_envoy import AsEnvoy
from bench.body import MODEL, chat_body
from bench.ports import free_port
from bench.processes import stop
from ext_proc.app import serve_on
from ext_proc.flow.counts import GateCounts
from ext_proc.metrics import ExtProcMetrics
from ext_proc.view import ClusterView
from tidegate.buckets import Buckets
from tidegate.domain.sample import EndpointSample, NodeSample, NodeTick, Status
from tidegate.runtime import now_ms, run
from tidegate.settings.config_file import parse
from tidegate.settings.services import ExtProcSettings
from tidegate.store.memory import MemoryStore
from tidegate.telemetry import configure_logs

BODY_BYTES: Final = 2048
CONCURRENCY: Final = 16
ROUND_SECONDS: Final = 2.0
TARGET_RATIO: Final = 1.05
SAMPLED: Final = 100
"""Of so many requests one is in a sampled trace."""
NOTHING, METRICS, TRACES = "no metrics", "metrics", "metrics and 1 % of traces"
VARIANTS: Final = (NOTHING, METRICS, TRACES)
REPLICAS: Final = {MODEL: 8, "second": 4, "third": 4}
EXPORT: Final = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
AS_PROMETHEUS: Final = {"Accept": "application/openmetrics-text;version=1.0.0", "Accept-Encoding": "gzip"}
SCRAPE_SECONDS: Final = 1.0


@dataclass(slots=True)
class Target:
    """One process under load. `spent` are (CPU seconds, requests) by round."""

    variant: str
    process: subprocess.Popen[str]
    address: str
    page: str | None
    spent: list[tuple[float, int]]

    def cpu_seconds(self) -> float:
        """Of all its threads, to the nanosecond."""
        tasks = Path(f"/proc/{self.process.pid}/task").iterdir()
        return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9


def measure(seconds: float = 8.0) -> list[dict[str, Any]]:
    """Rows of {name, value, unit, target}; each variant is loaded for about `seconds`."""
    return asyncio.run(_measure(max(2, round(seconds / ROUND_SECONDS))))


async def _measure(rounds: int) -> list[dict[str, Any]]:
    async with _collector() as (collector, received):
        with ExitStack() as stack:
            targets = [stack.enter_context(_target(variant, collector)) for variant in VARIANTS]
            for round_ in range(rounds + 1):
                for target in targets if round_ % 2 else targets[::-1]:
                    await _load(target)
            scrape_ms = await _scrape_cost(targets[1])
    for target in targets:
        del target.spent[0]  # the warm-up
    return _rows(targets, scrape_ms, len(received))


def _rows(targets: list[Target], scrape_ms: float, batches: int) -> list[dict[str, Any]]:
    per_request = {t.variant: [cpu / requests for cpu, requests in t.spent] for t in targets}
    figures: list[tuple[str, float, str, float | None]] = [
        (f"CPU a request, {name}", statistics.median(each) * 1e6, "µs", None) for name, each in per_request.items()
    ]
    for name, target in ((METRICS, None), (TRACES, TARGET_RATIO)):
        ratios = [mine / base for mine, base in zip(per_request[name], per_request[NOTHING], strict=True)]
        figures.append((f"{name} to none, median of {len(ratios)} pairs", statistics.median(ratios), "ratio", target))
    figures += [("CPU a scrape", scrape_ms, "ms", None), ("batches of spans received", batches, "batches", None)]
    return [{"name": f"metrics: {n}", "value": v, "unit": u, "target": t} for n, v, u, t in figures]


async def _load(target: Target) -> None:
    """Requests for ROUND_SECONDS, and the scrapes of that time."""
    body = pb.HttpBody(body=chat_body(BODY_BYTES), end_of_stream=True)
    message = pb.ProcessingRequest(request_body=body).SerializeToString()
    end, numbers = time.perf_counter() + ROUND_SECONDS, itertools.count(1)
    requests, began = 0, target.cpu_seconds()
    envoy = await AsEnvoy.to(target.address)

    async def client() -> None:
        nonlocal requests
        while time.perf_counter() < end:
            await envoy.ask(message, _traceparent(next(numbers)) if target.variant == TRACES else {})
            requests += 1

    async with _scraped(target.page):
        await asyncio.gather(*(client() for _ in range(CONCURRENCY)))
    await envoy.close()
    target.spent.append((target.cpu_seconds() - began, requests))


def _traceparent(number: int) -> dict[str, str]:
    """Envoy's span of the call: every one has a trace, a part of them is sampled."""
    sampled = "01" if number % SAMPLED == 0 else "00"
    return {"traceparent": f"00-{number:032x}-{number:016x}-{sampled}"}


@asynccontextmanager
async def _scraped(page: str | None) -> AsyncIterator[None]:
    if page is None:
        yield
        return
    task = asyncio.create_task(_scrape(page))
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def _scrape(page: str) -> None:
    async with aiohttp.ClientSession(headers=AS_PROMETHEUS) as session:
        while True:
            async with session.get(page) as response:
                await response.read()
            await asyncio.sleep(SCRAPE_SECONDS)


async def _scrape_cost(target: Target, scrapes: int = 50) -> float:
    """CPU in ms of one scrape, of a process that does nothing else but read samples."""
    assert target.page is not None
    async with aiohttp.ClientSession(headers=AS_PROMETHEUS) as session:
        idle, began = target.cpu_seconds(), time.perf_counter()
        await asyncio.sleep(1)
        idle = (target.cpu_seconds() - idle) / (time.perf_counter() - began)
        spent, began = target.cpu_seconds(), time.perf_counter()
        for _ in range(scrapes):
            async with session.get(target.page) as response:
                await response.read()
        busy = target.cpu_seconds() - spent - idle * (time.perf_counter() - began)
    return max(0.0, busy) / scrapes * 1000


@asynccontextmanager
async def _collector() -> AsyncIterator[tuple[str, list[int]]]:
    """An OTLP receiver that takes everything: its URL, and the bytes of each batch."""
    received: list[int] = []

    async def export(batch: bytes, _: Any) -> bytes:
        received.append(len(batch))
        return b""

    class Methods(grpc.GenericRpcHandler):  # type: ignore[misc]
        def service(self, details: Any) -> Any:
            return grpc.unary_unary_rpc_method_handler(export) if details.method == EXPORT else None

    server = aio.server()
    server.add_generic_rpc_handlers((Methods(),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield f"http://127.0.0.1:{port}", received
    finally:
        await server.stop(0)


@contextmanager
def _target(variant: str, collector: str) -> Iterator[Target]:
    command = [sys.executable, "-m", "bench.metrics_cost", "--serve", variant, "--collector", collector]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise RuntimeError(f"ext_proc with {variant} did not start")
        address, page = json.loads(line)
        yield Target(variant, process, address, page, [])
    finally:
        stop(process)


async def _serve(variant: str, collector: str) -> None:
    configure_logs("error", "json")
    listen, page = f"127.0.0.1:{free_port()}", None if variant == NOTHING else f"127.0.0.1:{free_port()}"
    if variant == NOTHING:
        _silence()
    endpoint = collector if variant == TRACES else None
    settings = ExtProcSettings(listen=listen, metrics_listen=page, otlp_endpoint=endpoint)
    store = MemoryStore(now_ms)
    sampled = asyncio.create_task(_keep_sampled(store))
    served = asyncio.create_task(serve_on(store, parse(_file(), "bench.yaml"), settings))
    while "ext_proc" not in await store.present():
        await asyncio.sleep(0.01)
    print(json.dumps([listen, page and f"http://{page}/metrics"]), flush=True)
    await served
    sampled.cancel()


def _silence() -> None:
    """Everything that a request records does nothing."""

    def nothing(*_: object) -> None: ...

    for recorder, names in (
        (ExtProcMetrics, ("decided", "refused", "failed", "took")),
        (GateCounts, ("left",)),
        (ClusterView, ("_count",)),
        (Buckets, ("add",)),
    ):
        for name in names:
            setattr(recorder, name, nothing)


def _addresses(cluster: str) -> list[str]:
    number = list(REPLICAS).index(cluster)
    return [f"10.0.{number}.{n}:8000" for n in range(1, REPLICAS[cluster] + 1)]


def _file() -> str:
    clusters = [
        {"name": name, "models": [name], "endpoints": [{"address": address} for address in _addresses(name)]}
        for name in REPLICAS
    ]
    return json.dumps({"clusters": clusters})


async def _keep_sampled(store: MemoryStore) -> None:
    """As agents do it, ten times a second."""
    for seq in itertools.count():
        at = now_ms()
        endpoints = [_sample(name, address, at, seq) for name in REPLICAS for address in _addresses(name)]
        node = NodeSample(node="bench", sampled_at_ms=at, seq=seq, nvml="no_library", gpus={})
        await store.publish(NodeTick(node=node, endpoints=tuple(endpoints)), ttl_ms=3000)
        await asyncio.sleep(0.1)


def _sample(cluster: str, address: str, at_ms: int, seq: int) -> EndpointSample:
    return EndpointSample(
        cluster=cluster,
        address=address,
        node="bench",
        sampled_at_ms=at_ms,
        seq=seq,
        status=Status.READY,
        running=4,
        waiting=0,
    )


def main() -> None:
    """Print the rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=20.0, help="of load for each variant")
    parser.add_argument("--serve", choices=VARIANTS, help=argparse.SUPPRESS)
    parser.add_argument("--collector", default="", help=argparse.SUPPRESS)
    told = parser.parse_args()
    if told.serve:
        run(lambda: _serve(told.serve, told.collector))
        return
    for row in measure(told.seconds):
        print(f"{row['name']:<60}{row['value']:>10.3f} {row['unit']}")


if __name__ == "__main__":
    main()
