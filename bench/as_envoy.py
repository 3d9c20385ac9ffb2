"""A client of ext_proc that writes as Envoy does: header fields as literals of their own, one connection, many streams.

A gRPC library would index fields of each call in the dynamic table, which Envoy does not once the table is empty.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Mapping
from typing import Final

from ext_proc.health import EXTERNAL_PROCESSOR

DATA, HEADERS, SETTINGS, PING = 0, 1, 4, 6
END_STREAM, ACK, END_HEADERS = 1, 1, 4
WINDOW_UPDATE: Final = 8
WHOLE_WINDOW: Final = struct.pack(">I", (1 << 31) - 1 - 65_535)
"""What the server may send on the connection: 2 GiB, more than a bench asks for."""
PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
FIELDS: Final = {
    ":method": "POST",
    ":path": f"/{EXTERNAL_PROCESSOR}/Process",
    ":authority": "ext_proc",
    ":scheme": "http",
    "te": "trailers",
    "content-type": "application/grpc",
}


class AsEnvoy:
    """One connection. `ask` sends one body message on a stream of its own, and waits for answer and trailers."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._answers: dict[int, asyncio.Future[None]] = {}
        self._ends: dict[int, asyncio.Future[None]] = {}
        self._next = 1
        writer.write(PREFACE + frame(SETTINGS, 0, 0, b"") + frame(WINDOW_UPDATE, 0, 0, WHOLE_WINDOW))
        self._task = asyncio.create_task(self._listen())

    @classmethod
    async def to(cls, address: str) -> AsEnvoy:
        """Connect to `host:port`."""
        host, _, port = address.rpartition(":")
        return cls(*await asyncio.open_connection(host, int(port)))

    async def ask(self, message: bytes, fields: Mapping[str, str]) -> None:
        """Raises ConnectionError when the server hangs up."""
        stream, self._next = self._next, self._next + 2
        loop = asyncio.get_running_loop()
        answer, end = self._answers[stream], self._ends[stream] = loop.create_future(), loop.create_future()
        block = b"".join(map(literal, [*FIELDS, *fields], [*FIELDS.values(), *fields.values()]))
        body = b"\0" + struct.pack(">I", len(message)) + message
        self._writer.write(frame(HEADERS, END_HEADERS, stream, block) + frame(DATA, 0, stream, body))
        await answer
        self._writer.write(frame(DATA, END_STREAM, stream, b""))
        await end

    async def close(self) -> None:
        """Hang up."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._writer.close()
        await self._writer.wait_closed()

    async def _listen(self) -> None:
        try:
            while True:
                head = await self._reader.readexactly(9)
                payload = await self._reader.readexactly(int.from_bytes(head[:3], "big"))
                self._heard(head[3], head[4], int.from_bytes(head[5:], "big"), payload)
        except asyncio.IncompleteReadError:
            for waiting in (*self._answers.values(), *self._ends.values()):
                if not waiting.done():
                    waiting.set_exception(ConnectionError("the server hung up"))

    def _heard(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        if kind in {SETTINGS, PING} and not flags & ACK:
            self._writer.write(frame(kind, ACK, 0, payload if kind == PING else b""))
        elif kind == DATA and payload and stream in self._answers:
            self._answers.pop(stream).set_result(None)
        if kind == HEADERS and flags & END_STREAM and stream in self._ends:
            if (answer := self._answers.pop(stream, None)) is not None:
                answer.set_exception(ConnectionError("trailers without an answer"))
            self._ends.pop(stream).set_result(None)


def literal(name: str, value: str) -> bytes:
    """A field without indexing (RFC 7541, section 6.2.2); both parts are shorter than 127 bytes."""
    return b"\0" + bytes([len(name)]) + name.encode() + bytes([len(value)]) + value.encode()


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    """RFC 9113, section 4.1."""
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload
