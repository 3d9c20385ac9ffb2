"""The gRPC server: reads, hands to the stream's state machine, writes. No rule of the protocol is here."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

import grpc
import structlog
from grpc_reflection.v1alpha import reflection

from tidegate.domain.errors import ConfigError, ProtocolViolation
from tidegate.grpc_health import HEALTH, Health, health_handlers
from tidegate.grpc_tls import bind
from tidegate.grpc_tls_files import TlsWatch
from xds_server.cache import SnapshotCache, Watcher
from xds_server.groups import GroupOf, Node, group_of
from xds_server.metrics import AckTimes, XdsMetrics
from xds_server.services import SERVICES, Method, methods
from xds_server.subscription.stream import Stream, StreamStatus
from xds_server.subscription.verdicts import Happening
from xds_server.type_urls import SHORT_NAMES

log = structlog.get_logger("xds_server")

MOST_SENT_BYTES: Final = 256 * 1024 * 1024
MOST_RECEIVED_BYTES: Final = 64 * 1024 * 1024  # a Node is 61 kB; the versions of 100,000 resources are 10 MB
OPTIONS: Final = (
    ("grpc.max_receive_message_length", MOST_RECEIVED_BYTES),
    ("grpc.max_send_message_length", MOST_SENT_BYTES),
    ("grpc.so_reuseport", 0),  # a busy port is an error, not a second server on it
    ("grpc.http2.max_ping_strikes", 0),
    ("grpc.http2.min_ping_interval_without_data_ms", 1000),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 1000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
)


class Streams:
    """The open streams: gives each an id that was never used before, and says how each stands."""

    def __init__(self, metrics: XdsMetrics, group_of: GroupOf = group_of) -> None:
        self.metrics, self.group_of = metrics, group_of
        self._open: dict[str, Stream] = {}
        # A client may come back with a nonce of this server's predecessor: ids differ from one process to the next.
        self._ids = (f"{secrets.token_hex(4)}.{number}" for number in itertools.count(1))

    @contextmanager
    def opened(self, method: Method) -> Iterator[Stream]:
        """A state machine that is listed until the block ends."""
        observe = self._observer(lambda: machine.node)
        machine = Stream(next(self._ids), method.protocol, only=method.only, observe=observe)
        self._open[machine.stream_id] = machine
        self.metrics.streams.set(len(self._open))
        try:
            yield machine
        finally:
            del self._open[machine.stream_id]
            self.metrics.streams.set(len(self._open))

    def status(self, now_ms: int) -> list[StreamStatus]:
        """How each stream stands, oldest stream first; one that has not named its node is left out."""
        return [
            replace(machine.status(now_ms), group=self.group_of(machine.node))
            for machine in self._open.values()
            if machine.node is not None and machine.node.id
        ]

    def any_brings_state(self) -> bool:
        """Whether any open stream is of a client that holds what an earlier server gave it."""
        return any(machine.brings_state for machine in self._open.values())

    def _observer(self, node: Callable[[], Node | None]) -> Callable[[Happening, str, str], None]:
        times = AckTimes(self.metrics)

        def observe(happening: Happening, type_url: str, detail: str) -> None:
            self.metrics.count(happening, type_url)
            times.saw(happening, type_url, detail)
            if happening == "nack":
                who = node()
                log.error("a push was refused", node=who and who.id, type=SHORT_NAMES[type_url], error=detail)

        return observe


class DiscoveryServicer:
    """Serves the cache's snapshots to any number of streams. `clock_ms` only dates pushes."""

    def __init__(self, cache: SnapshotCache, streams: Streams, clock_ms: Callable[[], int]) -> None:
        self._cache, self._streams, self._clock_ms = cache, streams, clock_ms

    async def serve(self, method: Method, context: Any) -> None:
        """One stream, until the client closes it or breaks the protocol."""
        with self._streams.opened(method) as machine:
            try:
                if await self._read_one(machine, context):
                    await self._converse(machine, context)
            except ProtocolViolation as exc:
                await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(exc))

    async def _converse(self, machine: Stream, context: Any) -> None:
        """Read in one task, write in another: they meet in the state machine, and neither waits for the other."""
        assert machine.node is not None
        with self._cache.watch(self._streams.group_of(machine.node)) as watcher:
            reader = asyncio.create_task(self._read(machine, watcher, context))
            try:
                await self._write(machine, watcher, reader, context)
            finally:
                reader.cancel()
                with contextlib.suppress(asyncio.CancelledError, ProtocolViolation):
                    await reader

    async def _read(self, machine: Stream, watcher: Watcher, context: Any) -> None:
        try:
            while await self._read_one(machine, context):
                watcher.wake()
        finally:
            watcher.wake()

    async def _read_one(self, machine: Stream, context: Any) -> bool:
        data = await context.read()
        if data is grpc.aio.EOF:
            return False
        try:
            request = machine.protocol.parse(data)
        except Exception as exc:
            raise ProtocolViolation(f"not a {machine.protocol.name} discovery request") from exc
        machine.receive(request, self._clock_ms())
        return True

    async def _write(self, machine: Stream, watcher: Watcher, reader: asyncio.Task[None], context: Any) -> None:
        """Write what is due by the newest snapshot. While a write blocks, snapshots replace one another."""
        while not reader.done():
            await watcher.woken(self._patience_seconds(machine) if watcher.snapshot else None)
            while (snapshot := watcher.snapshot) is not None and not reader.done():
                response = machine.next_response(snapshot, self._clock_ms())
                if response is None:
                    break
                data = machine.protocol.encode(response)
                self._streams.metrics.sent(response.type_url, len(data))
                await context.write(data)
        reader.result()

    def _patience_seconds(self, machine: Stream) -> float | None:
        return None if machine.wake_at_ms is None else max(0, machine.wake_at_ms - self._clock_ms()) / 1000


class _Methods(grpc.GenericRpcHandler):  # type: ignore[misc]
    """Path → handler; no serialisers, so messages stay bytes. Other paths are UNIMPLEMENTED."""

    def __init__(self, servicer: DiscoveryServicer, health: Health) -> None:
        self._handlers = {m.path: _handler(servicer, m) for m in methods()} | health_handlers(health)

    def service(self, call_details: Any) -> Any:
        return self._handlers.get(call_details.method)


def _handler(servicer: DiscoveryServicer, method: Method) -> Any:
    async def serve(_: Any, context: Any) -> None:
        await servicer.serve(method, context)

    return grpc.stream_stream_rpc_method_handler(serve)


async def start(
    listen: str, servicer: DiscoveryServicer, health: Health | None = None, tls: TlsWatch | None = None
) -> tuple[Any, str]:
    """Serve on `host:port` (port 0: any free one), by TLS if given; server and bound address. Raises ConfigError.

    Discovery, health (always SERVING where none is given) and reflection are on one port.
    """
    server = grpc.aio.server(options=OPTIONS)
    server.add_generic_rpc_handlers((_Methods(servicer, health or Health(*SERVICES)),))
    reflection.enable_server_reflection((*SERVICES, HEALTH, reflection.SERVICE_NAME), server)
    try:
        port = bind(server, listen, tls)
    except RuntimeError as exc:
        raise ConfigError([f"xds cannot listen on {listen}: is the port taken?"]) from exc
    await server.start()
    return server, f"{listen.rpartition(':')[0]}:{port}"
