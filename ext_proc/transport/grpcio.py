"""The reference transport: grpc.aio, raw bytes in and out.

A stream that fails ends with a gRPC error, never with OK: Envoy takes a clean close as leave to send the request
on unprocessed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Protocol

import grpc
import structlog
from grpc import StatusCode, aio

from ext_proc.about import fault_fields
from ext_proc.buffered import Pieces
from ext_proc.flow.later import Later, Reply
from ext_proc.health import EXTERNAL_PROCESSOR, Health
from ext_proc.metrics import ExtProcMetrics
from ext_proc.transport.http2.limits import Limits
from tidegate.domain.errors import ProtocolViolation
from tidegate.domain.trace_context import TRACEPARENT_HEADER, TraceContext, read_traceparent
from tidegate.grpc_health import health_handlers
from tidegate.grpc_tls import bind
from tidegate.grpc_tls_files import TlsWatch

log = structlog.get_logger("ext_proc.transport")


def message_limit_bytes(max_body_bytes: int) -> int:
    """The receive limit: above any body that Envoy may still send, so that the answer is 413 and not 500."""
    return 2 * max_body_bytes + (1 << 20)


class ByteSession(Protocol):
    """One stream's conversation."""

    def handle(self, data: bytes | Pieces) -> Reply:
        """Answer one message, perhaps later; a list of its pieces is emptied.

        Raises ProtocolViolation; anything else is a crash.
        """


class GrpcioServer:
    """Serves ext_proc and health on one port, by TLS where given. `max_body_bytes`: the most that sessions accept."""

    def __init__(
        self,
        new_session: Callable[[], ByteSession],
        health: Health,
        metrics: ExtProcMetrics,
        *,
        max_body_bytes: int,
        tls: TlsWatch | None = None,
        reuse_port: bool = False,
        traced: Callable[[TraceContext], ByteSession] | None = None,
    ) -> None:
        self._tls = tls
        options = [
            ("grpc.max_receive_message_length", message_limit_bytes(max_body_bytes)),
            ("grpc.so_reuseport", int(reuse_port)),
            ("grpc.http2.max_ping_strikes", 0),
            ("grpc.keepalive_time_ms", int(Limits().quiet_seconds * 1000)),
            ("grpc.keepalive_timeout_ms", int(Limits().answer_seconds * 1000)),
            ("grpc.keepalive_permit_without_calls", 1),
            ("grpc.http2.max_pings_without_data", 0),
        ]
        self._server = aio.server(options=options)
        self._server.add_generic_rpc_handlers((_Methods(_Streams(new_session, metrics, traced), health),))

    async def start(self, listen: str) -> str:
        """Bind `host:port` (port 0: any free one) and serve; the bound address. Raises OSError when it is taken."""
        host = listen.rpartition(":")[0]
        try:
            port = bind(self._server, listen, self._tls)
        except RuntimeError as exc:
            raise OSError(f"cannot listen on {listen}: {exc}") from exc
        await self._server.start()
        return f"{host}:{port}"

    async def stop(self, grace_seconds: float) -> None:
        """Take no new stream, let open ones end within `grace_seconds`, cancel the rest."""
        await self._server.stop(grace_seconds)


class _Streams:
    """The Process method."""

    def __init__(
        self,
        new_session: Callable[[], ByteSession],
        metrics: ExtProcMetrics,
        traced: Callable[[TraceContext], ByteSession] | None,
    ) -> None:
        self._new_session, self._metrics, self._traced = new_session, metrics, traced

    async def process(self, _: Any, context: Any) -> None:
        """One stream. Half-close and cancel are both its normal end."""
        self._metrics.open_streams += 1
        try:
            await self._converse(context)
        except ProtocolViolation as exc:
            self._metrics.failed("protocol")
            log.warning("ext_proc stream aborted", error=str(exc))
            await context.abort(StatusCode.INVALID_ARGUMENT, str(exc))
        except (asyncio.CancelledError, aio.AbortError):
            raise
        except aio.InternalError as exc:  # nothing can be read or written: the client left, which is known only later
            log.info("ext_proc stream broke", error=str(exc))
            await context.abort(StatusCode.INTERNAL, str(exc))
        except Exception as exc:  # noqa: BLE001 - Envoy is told, and others go on
            if context.cancelled():
                return
            self._metrics.failed("crash")
            log.error("ext_proc stream crashed", **fault_fields(exc))  # noqa: TRY400 - it may repeat what a client sent
            await context.abort(StatusCode.INTERNAL, f"{type(exc).__name__} in ext_proc")
        finally:
            self._metrics.open_streams -= 1

    async def _converse(self, context: Any) -> None:
        handle = self._session(context).handle
        coming: asyncio.Future[Any] | None = None
        try:
            while (data := await (coming or context.read())) is not aio.EOF:
                coming, reply = None, handle(data)
                del data  # a body of megabytes must not wait for the next message
                if isinstance(reply, Later):
                    coming = asyncio.ensure_future(context.read())
                    answer = await _answer_to_come(context, reply, coming)
                    if answer is None:
                        return
                    await context.write(answer)
                else:
                    await context.write(reply)
        finally:
            if coming is not None:
                coming.cancel()

    def _session(self, context: Any) -> ByteSession:
        """A session of the call's trace, where that is sampled."""
        if self._traced is not None:
            for name, value in context.invocation_metadata() or ():
                found = read_traceparent(value) if name == TRACEPARENT_HEADER else None
                if found is not None and found.sampled:
                    return self._traced(found)
        return self._new_session()


async def _answer_to_come(context: Any, reply: Later, coming: asyncio.Future[Any]) -> bytes | None:
    """Ask for time and wait. None when the client leaves before, which shows as the end of what it sends."""
    try:
        await context.write(reply.first)
        await asyncio.wait((coming, reply.answer), return_when=asyncio.FIRST_COMPLETED)
        if reply.answer.done():
            return reply.answer.result()
        if coming.result() is not aio.EOF:
            raise ProtocolViolation("a message before the answer to the one before it")
        return None
    finally:
        reply.answer.cancel()


class _Methods(grpc.GenericRpcHandler):  # type: ignore[misc]
    """Path → handler; no serialisers, so messages stay bytes. Other paths are UNIMPLEMENTED."""

    def __init__(self, streams: _Streams, health: Health) -> None:
        self._handlers = {
            f"/{EXTERNAL_PROCESSOR}/Process": grpc.stream_stream_rpc_method_handler(streams.process),
            **health_handlers(health),
        }

    def service(self, call_details: Any) -> Any:
        return self._handlers.get(call_details.method)
