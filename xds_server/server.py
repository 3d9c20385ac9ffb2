"""The ADS gRPC server: reads, dispatches to the stream's state machine, writes. No rule of the protocol is here."""

from __future__ import annotations

import asyncio
import itertools
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import grpc
import structlog
from envoy.service.discovery.v3 import ads_pb2_grpc

from tidegate.domain.errors import ConfigError, ProtocolViolation
from xds_server.cache import SnapshotCache, Watcher
from xds_server.metrics import XdsMetrics
from xds_server.subscription import Happening, SotwStream, StreamStatus
from xds_server.type_urls import SHORT_NAMES

log = structlog.get_logger("xds_server")

MOST_BYTES: Final = 256 * 1024 * 1024
OPTIONS: Final = (
    ("grpc.max_receive_message_length", MOST_BYTES),
    ("grpc.max_send_message_length", MOST_BYTES),
    ("grpc.so_reuseport", 0),  # a busy port is an error, not a second server on it
    ("grpc.http2.min_ping_interval_without_data_ms", 1000),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 1000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
)


class Streams:
    """The open streams: gives each an id that was never used before, and says how each stands."""

    def __init__(self, metrics: XdsMetrics) -> None:
        self._metrics = metrics
        self._open: dict[str, SotwStream] = {}
        # A client may come back with a nonce of this server's predecessor: ids differ from one process to the next.
        self._ids = (f"{secrets.token_hex(4)}.{number}" for number in itertools.count(1))

    @contextmanager
    def opened(self) -> Iterator[SotwStream]:
        """A state machine that is listed until the block ends."""
        machine = SotwStream(next(self._ids), self._observer(lambda: machine.node))
        self._open[machine.stream_id] = machine
        self._metrics.streams.set(len(self._open))
        try:
            yield machine
        finally:
            del self._open[machine.stream_id]
            self._metrics.streams.set(len(self._open))

    def status(self, now_ms: int) -> list[StreamStatus]:
        """How each stream stands, oldest stream first; one that has not named its node is left out."""
        return [machine.status(now_ms) for machine in self._open.values() if machine.node]

    def _observer(self, node: Callable[[], str]) -> Callable[[Happening, str, str], None]:
        def observe(happening: Happening, type_url: str, detail: str) -> None:
            self._metrics.count(happening, type_url)
            if happening == "nack":
                log.error("Envoy refused a push", node=node(), type=SHORT_NAMES[type_url], error=detail)

        return observe


class AdsServicer(ads_pb2_grpc.AggregatedDiscoveryServiceServicer):  # type: ignore[misc]
    """Serves the cache's snapshots to any number of streams. `clock_ms` only dates pushes."""

    def __init__(self, cache: SnapshotCache, streams: Streams, clock_ms: Callable[[], int]) -> None:
        self._cache, self._streams, self._clock_ms = cache, streams, clock_ms

    async def StreamAggregatedResources(self, _requests: Any, context: Any) -> None:  # noqa: N802
        """One stream, until the client closes it or breaks the protocol."""
        with self._streams.opened() as machine, self._cache.watch() as watcher:
            try:
                await self._converse(machine, watcher, context)
            except ProtocolViolation as exc:
                await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(exc))

    async def _converse(self, machine: SotwStream, watcher: Watcher, context: Any) -> None:
        """Wait for a request or a snapshot, whichever comes; while a write blocks, snapshots replace one another."""
        request = asyncio.ensure_future(context.read())
        snapshot = asyncio.ensure_future(watcher.next())
        try:
            while True:
                await asyncio.wait({request, snapshot}, return_when=asyncio.FIRST_COMPLETED)
                responses = []
                if snapshot.done():
                    responses += machine.publish(snapshot.result(), self._clock_ms())
                    snapshot = asyncio.ensure_future(watcher.next())
                if request.done():
                    if request.result() is grpc.aio.EOF:
                        return
                    responses += machine.receive(request.result(), self._clock_ms())
                    request = asyncio.ensure_future(context.read())
                for response in responses:
                    await context.write(response)
        finally:
            request.cancel()
            snapshot.cancel()


async def start(listen: str, servicer: AdsServicer) -> tuple[grpc.aio.Server, str]:
    """Serve on `host:port` (port 0: any free one); the server and its bound address. Raises ConfigError."""
    server = grpc.aio.server(options=OPTIONS)
    ads_pb2_grpc.add_AggregatedDiscoveryServiceServicer_to_server(servicer, server)
    try:
        port = server.add_insecure_port(listen)
    except RuntimeError as exc:
        raise ConfigError([f"xds cannot listen on {listen}: is the port taken?"]) from exc
    await server.start()
    return server, f"{listen.rpartition(':')[0]}:{port}"
