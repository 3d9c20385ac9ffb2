"""CPU of ext_proc per request against a bare grpc.aio server that answers fixed bytes: `python -m bench.ext_proc_cpu`.

Both servers run at once, each in a process of its own, and are loaded in turns by the same client, so that a noisy
machine treats them alike. A request is what Envoy makes of it: one stream, one body message, one answer, half-close.
The tidegate server holds eight replicas with samples that come every 100 ms, as agents send them.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import grpc
from envoy.service.ext_proc.v3 import external_processor_pb2 as pb
from grpc import aio
from prometheus_client import CollectorRegistry

from bench.body import MODEL, chat_body
from bench.processes import cpu_seconds, stop
from ext_proc.buffered import Pieces
from ext_proc.decide import Decider
from ext_proc.health import EXTERNAL_PROCESSOR, Health
from ext_proc.metrics import ExtProcMetrics
from ext_proc.responses import routed
from ext_proc.route import Routes
from ext_proc.session import Session
from ext_proc.tokens import TokenBook
from ext_proc.transport.grpcio import GrpcioServer
from ext_proc.transport.wire import WireServer
from ext_proc.view import FleetView
from tidegate.domain.sample import EndpointSample, Status
from tidegate.domain.topology import Cluster, Endpoint, Topology
from tidegate.runtime import now_ms, run

BODY_BYTES = 2048
CONCURRENCY = 16
REQUESTS = 4000
ROUNDS = 5
TARGET_RATIO = 1.4
ADDRESSES = [f"10.0.0.{n}:8000" for n in range(1, 9)]
SERVERS = ("bare grpc.aio", "tidegate ext_proc", "tidegate ext_proc, wire", "bare wire")


def measure(requests: int = REQUESTS, rounds: int = ROUNDS) -> list[dict[str, Any]]:
    """Rows of {name, connections, body_bytes, rps, cpu_us, ratio}, one a server; `ratio` is to the bare one."""
    with ExitStack() as stack:
        servers = [stack.enter_context(_server(name)) for name in SERVERS]
        spent = asyncio.run(_alternate(servers, requests, rounds))
    base = spent[0][0]
    return [
        {
            "name": f"ext_proc_cpu: {name}",
            "connections": CONCURRENCY,
            "body_bytes": BODY_BYTES,
            "rps": requests * rounds / seconds,
            "cpu_us": {"ext_proc": cpu / (requests * rounds) * 1e6},
            "ratio": cpu / base,
        }
        for name, (cpu, seconds) in zip(SERVERS, spent, strict=True)
    ]


async def _alternate(servers: list[tuple[int, str]], requests: int, rounds: int) -> list[tuple[float, float]]:
    """(CPU seconds, wall seconds) of each server, after a warm-up that is not counted."""
    spent = [[0.0, 0.0] for _ in servers]
    for round_ in range(rounds + 1):
        for number, (pid, address) in enumerate(servers):
            cpu, began = cpu_seconds([pid]), time.perf_counter()
            await _load(address, requests)
            if round_ > 0:
                spent[number][0] += cpu_seconds([pid]) - cpu
                spent[number][1] += time.perf_counter() - began
    return [(cpu, seconds) for cpu, seconds in spent]


async def _load(address: str, requests: int) -> None:
    body = pb.HttpBody(body=chat_body(BODY_BYTES), end_of_stream=True)
    message = pb.ProcessingRequest(request_body=body).SerializeToString()
    left = iter(range(requests))
    async with aio.insecure_channel(address) as channel:
        process = channel.stream_stream(f"/{EXTERNAL_PROCESSOR}/Process")

        async def client() -> None:
            for _ in left:
                call = process()
                await call.write(message)
                await call.read()
                await call.done_writing()
                await call.code()

        await asyncio.gather(*(client() for _ in range(CONCURRENCY)))


@contextmanager
def _server(name: str) -> Iterator[tuple[int, str]]:
    command = [sys.executable, "-m", "bench.ext_proc_cpu", "--serve", name]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        if not address:
            raise RuntimeError(f"the server {name!r} did not start")
        yield process.pid, address
    finally:
        stop(process)


async def _serve(name: str) -> None:
    tokens = TokenBook([MODEL])
    metrics = ExtProcMetrics(CollectorRegistry(), tokens)
    if name == SERVERS[0]:
        server, work = aio.server(), None
        server.add_generic_rpc_handlers((_Bare(),))
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        print(f"127.0.0.1:{port}", flush=True)
    elif name == SERVERS[3]:
        wire, work = WireServer(_Fixed, Health(), metrics, max_body_bytes=1 << 25), None
        print(await wire.start("127.0.0.1:0"), flush=True)
    else:
        view = FleetView(_topology(), 3000)
        routes = Routes(_topology(), view.cluster_listing, tokens.ratio_of)
        decide = Decider(routes, view, tokens, metrics, max_request_bytes=1 << 25, clock=now_ms).decide
        transport = GrpcioServer if name == SERVERS[1] else WireServer
        ours = transport(lambda: Session(decide), Health(), metrics, max_body_bytes=1 << 25)
        work = asyncio.create_task(_keep_sampled(view))
        print(await ours.start("127.0.0.1:0"), flush=True)
    await asyncio.Event().wait()
    del work


def _topology() -> Topology:
    return Topology((Cluster(MODEL, (MODEL,), endpoints=tuple(Endpoint(a) for a in ADDRESSES)),))


async def _keep_sampled(view: FleetView) -> None:
    while True:
        view.sampled((_sample(address) for address in ADDRESSES), now_ms())
        view.weighted({MODEL: dict.fromkeys(ADDRESSES, 500)})
        await asyncio.sleep(0.1)


def _sample(address: str) -> EndpointSample:
    return EndpointSample(
        cluster=MODEL,
        address=address,
        node="bench",
        sampled_at_ms=now_ms(),
        seq=1,
        status=Status.READY,
        running=4,
        waiting=0,
    )


class _Fixed:
    """A session that answers any message with the same bytes."""

    _ANSWER = routed(MODEL, (ADDRESSES[0], ADDRESSES[1]))

    def handle(self, _: bytes | Pieces) -> bytes:
        return self._ANSWER


class _Bare(grpc.GenericRpcHandler):
    """Reads a message, writes the same answer; no parsing, no serialisers."""

    def service(self, details: Any) -> Any:
        answer = routed(MODEL, (ADDRESSES[0], ADDRESSES[1]))

        async def process(_: Any, context: Any) -> None:
            while await context.read() is not aio.EOF:
                await context.write(answer)

        known = details.method.endswith("/Process")
        return grpc.stream_stream_rpc_method_handler(process) if known else None


def _table(rows: list[dict[str, Any]]) -> str:
    head = f"{'server':<34}{'requests/s':>12}{'CPU µs/request':>16}{'ratio':>8}"
    lines = [
        f"{row['name']:<34}{row['rps']:>12.0f}{row['cpu_us']['ext_proc']:>16.0f}{row['ratio']:>8.2f}" for row in rows
    ]
    return "\n".join([head, *lines, f"target: ratio ≤ {TARGET_RATIO}"])


def main() -> None:
    """Print the table and the rows as one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--serve", choices=SERVERS, help=argparse.SUPPRESS)
    serve = parser.parse_args().serve
    if serve:
        run(lambda: _serve(serve))
        return
    rows = measure()
    print(_table(rows))
    print(json.dumps(rows))


if __name__ == "__main__":
    main()
