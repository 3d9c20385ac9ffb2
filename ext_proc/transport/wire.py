"""The fast transport: HTTP/2 frames and gRPC messages on asyncio, and nothing else of gRPC.

It serves `ExternalProcessor/Process` and gRPC health as `grpcio` does. A stream that fails ends with a gRPC error,
never with OK: Envoy takes a clean close as leave to send the request on unprocessed.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

import structlog

from ext_proc.health import EXTERNAL_PROCESSOR, Health
from ext_proc.metrics import ExtProcMetrics
from ext_proc.transport.grpc_calls import Call, Calls, NewMethod
from ext_proc.transport.grpcio import ByteSession, message_limit_bytes
from ext_proc.transport.http2.connection import Connection
from ext_proc.transport.http2.frames import ErrorCode, Http2ConnectionError
from ext_proc.transport.http2.limits import Limits
from ext_proc.transport.methods import Check, Process, Watch
from tidegate.asyncio_tls import server_context
from tidegate.domain.trace_context import TraceContext, read_traceparent
from tidegate.grpc_health import HEALTH
from tidegate.grpc_tls_files import TlsWatch

log = structlog.get_logger("ext_proc.transport")

HANDSHAKE_SECONDS: Final = 10.0
"""For the preface and the acknowledgement of SETTINGS."""
STUCK_SECONDS: Final = 30.0
"""How long a client may read nothing while answers wait for it."""
TICK_SECONDS: Final = 5.0
"""Between looks at what clients leave undone."""
PATIENCE_SECONDS: Final = 0.002
"""How long the end of a stream whose client has what it wanted may wait for something else to be sent with it: a write
for each costs more than the frames of a whole request."""
_BACKLOG: Final = 1024
_UNIX: Final = "unix:"


class WireServer:
    """Serves ext_proc and health on one port or Unix socket. `max_body_bytes` is the largest that sessions accept."""

    def __init__(
        self,
        new_session: Callable[[], ByteSession],
        health: Health,
        metrics: ExtProcMetrics,
        *,
        max_body_bytes: int,
        limits: Limits | None = None,
        tls: TlsWatch | None = None,
        reuse_port: bool = False,
        traced: Callable[[TraceContext], ByteSession] | None = None,
    ) -> None:
        most = message_limit_bytes(max_body_bytes)
        held = max(Limits().max_buffered_bytes, 4 * most)
        self._limits = limits or Limits(max_buffered_bytes=held, max_waiting_bytes=held)
        if traced is not None:
            self._limits = replace(self._limits, header_table_bytes=0)
        self._max_message, self._reuse_port = most, reuse_port
        self._tls = server_context(tls) if tls is not None else None
        self._clients: set[_Client] = set()
        self._empty = asyncio.Event()
        self._empty.set()
        self._server: asyncio.Server | None = None
        self._ticks: asyncio.TimerHandle | None = None
        self._stopping = self._stopped = False
        self._methods: Mapping[bytes, NewMethod] = {
            f"/{EXTERNAL_PROCESSOR}/Process".encode(): lambda call: Process(
                call, (traced and _traced(call, traced)) or new_session(), metrics
            ),
            f"/{HEALTH}/Check".encode(): lambda call: Check(call, health),
            f"/{HEALTH}/Watch".encode(): lambda call: Watch(call, health),
        }

    async def start(self, listen: str) -> str:
        """Bind `host:port` (port 0: any free one) or `unix:PATH` and serve; the bound address.

        Raises OSError when it is taken.
        """
        try:
            self._server = await self._bind(listen)
        except OSError as exc:
            raise OSError(f"cannot listen on {listen}: {exc}") from exc
        self._tick()
        if listen.startswith(_UNIX):
            return listen
        return f"{listen.rpartition(':')[0]}:{self._server.sockets[0].getsockname()[1]}"

    async def _bind(self, listen: str) -> asyncio.Server:
        loop = asyncio.get_running_loop()
        if listen.startswith(_UNIX):
            path = listen.removeprefix(_UNIX)
            return await loop.create_unix_server(self._client, path, ssl=self._tls, backlog=_BACKLOG)
        host, _, port = listen.rpartition(":")
        return await loop.create_server(
            self._client,
            host.strip("[]"),
            int(port),
            ssl=self._tls,
            backlog=_BACKLOG,
            reuse_port=self._reuse_port or None,
        )

    async def stop(self, grace_seconds: float) -> None:
        """Announce the end, let streams that are open or on the line end within `grace_seconds`, cut the rest.

        A client that does not answer to the announcement is waited for as long. Whoever was accepted before and joins
        meanwhile, by the end of its TLS handshake, is told the same; one that joins afterwards is told and closed.
        """
        self._stopping = True
        if self._server is not None:
            self._server.close()
        for client in tuple(self._clients):
            client.drain()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._empty.wait(), grace_seconds)
        self._stopped = True
        for client in tuple(self._clients):
            client.end()
            client.abort()
        if self._ticks is not None:
            self._ticks.cancel()

    def _tick(self) -> None:
        for client in tuple(self._clients):
            client.tick()
        seconds = min(TICK_SECONDS, self._limits.quiet_seconds / 2, self._limits.stuck_seconds / 2)
        self._ticks = asyncio.get_running_loop().call_later(seconds, self._tick)

    def _client(self) -> _Client:
        return _Client(self)

    # What clients tell.

    def joined(self, client: _Client) -> None:
        self._clients.add(client)
        self._empty.clear()
        if self._stopping:
            client.drain()
        if self._stopped:
            client.end()

    def left(self, client: _Client) -> None:
        self._clients.discard(client)
        if not self._clients:
            self._empty.set()

    def connection(self, client: _Client) -> Connection:
        """A connection with its calls, for a client that joined."""
        loop = asyncio.get_running_loop()
        calls = Calls(
            self._methods,
            lambda seconds, callback: loop.call_later(seconds, callback).cancel,
            client.flush,
            max_message_bytes=self._max_message,
            max_buffered_bytes=self._limits.max_buffered_bytes,
        )
        calls.connection = Connection(calls, self._limits, client.write)
        return calls.connection


class _Client(asyncio.Protocol):
    """One accepted connection: moves bytes between the socket and the state machine."""

    def __init__(self, server: WireServer) -> None:
        self._server = server
        self._clock = asyncio.get_running_loop().time
        self._connection: Connection
        self._transport: asyncio.Transport
        self._timer: asyncio.TimerHandle | None = None
        self._patience: asyncio.TimerHandle | None = None
        self._draining = self._ending = False

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        if (sock := transport.get_extra_info("socket")) is not None and sock.family != socket.AF_UNIX:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._connection = self._server.connection(self)
        self._timer = self._later(HANDSHAKE_SECONDS, self._handshake_over)
        self._server.joined(self)
        self.flush()

    def data_received(self, data: bytes) -> None:
        connection = self._connection
        connection.receive(data, self._clock())
        sender = connection.sender
        if sender.urgent:
            self._transport.write(sender.take())
        elif self._patience is None and sender.has_output:
            self._patience = self._later(PATIENCE_SECONDS, self._out_of_patience)
        if connection.closed or (self._draining and self._idle()):
            self.end()

    def eof_received(self) -> None:
        """The client has said everything; asyncio closes the connection once what waits for the client is read."""
        self.flush()
        self._ending = True
        self._bound_silence()

    def connection_lost(self, _: BaseException | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._patience is not None:
            self._patience.cancel()
        self._connection.lost()
        self._server.left(self)

    def pause_writing(self) -> None:
        """The client does not read: nothing more is read of it, so that nothing more has to be written."""
        self._transport.pause_reading()
        self._bound_silence()

    def resume_writing(self) -> None:
        if self._ending:  # what is left may wait no longer for being less
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        self._transport.resume_reading()

    def write(self, data: bytes) -> None:
        """Write this."""
        self._transport.write(data)

    def flush(self) -> None:
        """Write what is due."""
        connection = self._connection
        if self._ending or self._transport.is_closing():
            return
        if connection.sender.has_output:
            self._transport.write(connection.sender.take())
        if connection.closed or (self._draining and self._idle()):
            self.end()

    def _out_of_patience(self) -> None:
        self._patience = None
        self.flush()

    def tick(self) -> None:
        """Time has passed."""
        self._connection.tick(self._clock())
        self.flush()

    def drain(self) -> None:
        """Say that the end is near, and close once the client knows and the last stream has ended."""
        self._draining = True
        self._connection.drain()
        self.flush()

    def abort(self) -> None:
        """Close at once, whatever is open."""
        self._transport.abort()

    def end(self) -> None:
        """Say why, or that nothing more is accepted, and close; what is open is over."""
        if self._ending:
            return
        self._ending = True
        fault = self._connection.fault
        if fault is not None and fault.code is not ErrorCode.NO_ERROR:
            log.warning("an HTTP/2 connection was closed", error=str(fault), code=fault.code.name)
        else:
            self._connection.refuse_more()
            if self._connection.sender.has_output:
                self._transport.write(self._connection.sender.take())
        self._transport.close()
        self._bound_silence()

    def _idle(self) -> bool:
        """No stream is open, and none that the client opened before it heard of the end is on the line."""
        return self._connection.drained and not self._connection.streams

    def _bound_silence(self) -> None:
        """A client that reads nothing would keep the socket."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._later(STUCK_SECONDS, self.abort)

    def _handshake_over(self) -> None:
        self._timer = None
        if not self._connection.settings_acknowledged:
            self._connection.close(Http2ConnectionError(ErrorCode.SETTINGS_TIMEOUT, "no handshake"))
            self.flush()

    def _later(self, seconds: float, callback: Callable[[], None]) -> asyncio.TimerHandle:
        return asyncio.get_running_loop().call_later(seconds, callback)


def _traced(call: Call, new_session: Callable[[TraceContext], ByteSession]) -> ByteSession | None:
    """A session of the call's trace, where that is sampled."""
    text = call.stream.request.traceparent
    context = None if text is None else read_traceparent(text.decode("latin-1"))
    return new_session(context) if context is not None and context.sampled else None
