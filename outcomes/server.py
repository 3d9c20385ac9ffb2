"""The gRPC server of Envoy's access log: one stream a worker thread of an Envoy, raw bytes in, nothing out."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final

import grpc
import structlog
from envoy.data.accesslog.v3 import accesslog_pb2
from envoy.service.accesslog.v3 import als_pb2
from google.protobuf.message import DecodeError
from grpc import StatusCode, aio

from outcomes.entry import outcome_of
from tidegate.domain.outcomes.ending import Outcome
from tidegate.grpc_health import Health, health_handlers
from tidegate.grpc_tls import bind
from tidegate.grpc_tls_files import TlsWatch

log = structlog.get_logger("outcomes")

ACCESS_LOG: Final = "envoy.service.accesslog.v3.AccessLogService"
MOST_MESSAGE_BYTES: Final = 16 << 20
AT_ONCE: Final = 64
"""Entries read before others get their turn on the loop."""
AT_END: Final = frozenset({accesslog_pb2.NotSet, accesslog_pb2.DownstreamEnd})
"""Kinds of entry that are a request's last word; a long stream may have others before."""

OPTIONS: Final = (
    ("grpc.max_receive_message_length", MOST_MESSAGE_BYTES),
    ("grpc.so_reuseport", 0),
    ("grpc.http2.max_ping_strikes", 0),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 1000),
    ("grpc.keepalive_permit_without_calls", 1),
)


class AccessLogs:
    """StreamAccessLogs. `count` is told each outcome. `nodes` are the Envoys by how many streams each has open."""

    def __init__(self, count: Callable[[Outcome], None]) -> None:
        self._count = count
        self.nodes: Counter[str] = Counter()
        self.streams = 0
        self.counted = self.ignored = self.unreadable = self.messages = 0

    async def stream(self, _: Any, context: Any) -> bytes:
        """One stream, until Envoy ends it. A message that cannot be read ends it too."""
        node: str | None = None
        self.streams += 1
        try:
            while (data := await context.read()) is not aio.EOF:
                message = self._parsed(data)
                if message is None:
                    await context.abort(StatusCode.INVALID_ARGUMENT, "not a StreamAccessLogsMessage")
                    break
                if node is None and message.HasField("identifier"):
                    node = message.identifier.node.id
                    self.nodes[node] += 1
                await self._read(message.http_logs.log_entry)
        finally:
            self.streams -= 1
            if node is not None:
                self.nodes[node] -= 1
        return b""

    def _parsed(self, data: bytes) -> Any:
        self.messages += 1
        try:
            return als_pb2.StreamAccessLogsMessage.FromString(data)
        except DecodeError:
            self.unreadable += 1
            return None

    async def _read(self, entries: Sequence[Any]) -> None:
        for first in range(0, len(entries), AT_ONCE):
            for entry in entries[first : first + AT_ONCE]:
                self.entry(entry)
            await asyncio.sleep(0)

    def entry(self, entry: Any) -> None:
        """Count one entry that is a request's last word."""
        common = entry.common_properties
        last = common.access_log_type in AT_END and not common.intermediate_log_entry
        outcome = outcome_of(entry) if last else None
        if outcome is None:
            self.ignored += 1
            return
        self.counted += 1
        self._count(outcome)


class _Methods(grpc.GenericRpcHandler):  # type: ignore[misc]
    """Path → handler; no serialisers, so messages stay bytes. Other paths are UNIMPLEMENTED."""

    def __init__(self, logs: AccessLogs, health: Health) -> None:
        self._handlers = {
            f"/{ACCESS_LOG}/StreamAccessLogs": grpc.stream_unary_rpc_method_handler(logs.stream),
            **health_handlers(health),
        }

    def service(self, call_details: Any) -> Any:
        return self._handlers.get(call_details.method)


async def start(listen: str, logs: AccessLogs, health: Health, tls: TlsWatch | None = None) -> tuple[Any, str]:
    """Serve on `host:port` (port 0: any free one), by TLS if given; server and bound address.

    Raises OSError when the port is taken.
    """
    server = aio.server(options=OPTIONS)
    server.add_generic_rpc_handlers((_Methods(logs, health),))
    try:
        port = bind(server, listen, tls)
    except RuntimeError as exc:
        raise OSError(f"cannot listen on {listen}: {exc}") from exc
    await server.start()
    return server, f"{listen.rpartition(':')[0]}:{port}"
