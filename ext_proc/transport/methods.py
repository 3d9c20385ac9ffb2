"""What ext_proc serves over `wire`: its one stream, and gRPC health. Each method answers through its `Call`."""

from __future__ import annotations

import asyncio
from typing import Final

import structlog
from grpc import StatusCode

from ext_proc.about import fault_fields
from ext_proc.buffered import Pieces
from ext_proc.flow.later import Later, Reply
from ext_proc.health import Health
from ext_proc.metrics import ExtProcMetrics
from ext_proc.transport.grpc_calls import Call
from ext_proc.transport.grpcio import ByteSession
from tidegate.domain.errors import ProtocolViolation

log = structlog.get_logger("ext_proc.transport")


class Process:
    """One ext_proc stream. Half-close and reset are both its normal end."""

    __slots__ = ("_call", "_coming", "_metrics", "_open", "_session")

    def __init__(self, call: Call, session: ByteSession, metrics: ExtProcMetrics) -> None:
        self._call, self._session, self._metrics = call, session, metrics
        self._open = True
        self._coming: asyncio.Future[bytes] | None = None
        metrics.open_streams += 1

    def message(self, pieces: Pieces) -> None:
        if self._coming is not None:
            self._fail("protocol", StatusCode.INVALID_ARGUMENT, "a message before the answer to the one before it")
            return
        try:
            reply = self._session.handle(pieces)
        except ProtocolViolation as exc:
            log.warning("ext_proc stream aborted", error=str(exc))
            self._fail("protocol", StatusCode.INVALID_ARGUMENT, str(exc))
        except Exception as exc:  # noqa: BLE001 - Envoy is told, and others go on
            log.error("ext_proc stream crashed", **fault_fields(exc))  # noqa: TRY400 - it may repeat what a client sent
            self._fail("crash", StatusCode.INTERNAL, f"{type(exc).__name__} in ext_proc")
        else:
            self._answer(reply)

    def half_closed(self) -> None:
        self._call.finish(urgent=False)
        self.gone()

    def gone(self) -> None:
        if self._coming is not None:
            self._coming.cancel()
        if self._open:
            self._open = False
            self._metrics.open_streams -= 1

    def _answer(self, reply: Reply) -> None:
        if isinstance(reply, Later):
            self._call.send(reply.first)
            if self._call.done:  # sending ended the connection: `gone` was told before there was something to cancel
                reply.answer.cancel()
                return
            self._coming = reply.answer
            reply.answer.add_done_callback(self._came)
        else:
            self._call.send(reply)

    def _came(self, answer: asyncio.Future[bytes]) -> None:
        """The answer that was to come is there, unless the client left before."""
        self._coming = None
        if answer.cancelled():
            return
        fault = answer.exception()
        if fault is None:
            self._call.send(answer.result())
        else:
            log.error("ext_proc stream crashed", **fault_fields(fault))
            self._fail("crash", StatusCode.INTERNAL, f"{type(fault).__name__} in ext_proc")
        self._call.flush()

    def _fail(self, kind: str, status: StatusCode, why: str) -> None:
        self._metrics.failed(kind)
        self._call.finish(status, why)
        self.gone()


_NOT_ONE: Final = "a call of one message"
"""UNIMPLEMENTED to any other number of them (gRPC's "statuscodes.md", request cardinality violation)."""


class Check:
    """Health/Check: one message, one answer."""

    def __init__(self, call: Call, health: Health) -> None:
        self._call, self._health = call, health
        self._request: bytes | None = None

    def message(self, pieces: Pieces) -> None:
        if self._request is not None:
            self._call.finish(StatusCode.UNIMPLEMENTED, _NOT_ONE)
            return
        self._request = b"".join(pieces)

    def half_closed(self) -> None:
        if self._request is None:
            self._call.finish(StatusCode.UNIMPLEMENTED, _NOT_ONE)
            return
        response = self._health.check(self._request)
        if response is None:
            self._call.finish(StatusCode.NOT_FOUND, "unknown service")
            return
        self._call.send(response)
        self._call.finish()

    def gone(self) -> None:
        """Nothing is held."""


class Watch:
    """Health/Watch: the state, and once more when it changes."""

    def __init__(self, call: Call, health: Health) -> None:
        self._call, self._health = call, health
        self._task: asyncio.Task[None] | None = None

    def message(self, pieces: Pieces) -> None:
        if self._task is not None:
            self._call.finish(StatusCode.UNIMPLEMENTED, _NOT_ONE)
            self.gone()
            return
        request = b"".join(pieces)
        first = self._health.watch(request)
        self._call.send(first)
        if self._call.done:  # sending ended the connection
            return
        self._task = asyncio.create_task(self._change(request, first))

    def half_closed(self) -> None:
        """The client waits for news, where it asked for any."""
        if self._task is None:
            self._call.finish(StatusCode.UNIMPLEMENTED, _NOT_ONE)

    def gone(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _change(self, request: bytes, first: bytes) -> None:
        await self._health.drained()
        last = self._health.watch(request)
        if last != first:
            self._call.send(last)
        self._call.finish()
        self._call.flush()
