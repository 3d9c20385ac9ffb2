"""A TCP line between Envoy and ext_proc that breaks as lines do."""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import struct
from dataclasses import dataclass, field
from typing import Final

from tests.ports import take_free_port

_RESET: Final = struct.pack("ii", 1, 0)
"""SO_LINGER of zero seconds: closing sends RST."""
CHUNK: Final = 16_384


@dataclass(eq=False)
class _Pair:
    """One connection: both ends, and what moves bytes between them."""

    near: asyncio.StreamWriter
    far: asyncio.StreamWriter
    tasks: list[asyncio.Task[None]] = field(default_factory=list)
    silent: bool = False


@dataclass
class Line:
    """Listens on `port` and forwards to `target`. `cut`, `fall_silent` and `slow` act on the connections there are."""

    target: int
    port: int = field(default_factory=take_free_port)
    seconds_a_chunk: float = 0.0
    bytes_a_chunk: int = CHUNK
    cut_after: int | None = None
    """Connections that open from here on are cut once so many bytes have passed."""
    pairs: set[_Pair] = field(default_factory=set)
    server: asyncio.Server | None = None
    cuts: int = 0

    async def start(self) -> None:
        self.server = await asyncio.start_server(self._accepted, "127.0.0.1", self.port)

    async def stop(self) -> None:
        if self.server is not None:
            self.server.close()
        for pair in tuple(self.pairs):
            await self._end(pair)

    async def cut(self) -> None:
        """Reset every connection, both ends, wherever its bytes are."""
        for pair in tuple(self.pairs):
            self.cuts += 1
            await self._end(pair)

    def fall_silent(self) -> None:
        """Nothing more passes on the connections there are, and no end is told: their peers have vanished."""
        for pair in self.pairs:
            pair.silent = True

    @property
    def vanished(self) -> int:
        """Connections that are silent and that ext_proc still holds."""
        return sum(pair.silent and not pair.far.is_closing() for pair in self.pairs)

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            far_reader, far = await asyncio.open_connection("127.0.0.1", self.target)
        except OSError:
            _reset(writer)
            return
        pair = _Pair(writer, far)
        self.pairs.add(pair)
        left = None if self.cut_after is None else random.Random(self.cuts).randrange(self.cut_after)
        budget = [left]
        pair.tasks = [
            asyncio.create_task(self._move(pair, reader, far, budget, slow=False)),
            asyncio.create_task(self._move(pair, far_reader, writer, budget, slow=True)),
        ]

    async def _move(
        self,
        pair: _Pair,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        budget: list[int | None],
        *,
        slow: bool,
    ) -> None:
        """Bytes from one end to the other, until an end or a cut."""
        with contextlib.suppress(OSError):
            while data := await reader.read(self.bytes_a_chunk if slow else CHUNK):
                if pair.silent:
                    continue
                writer.write(data)
                await writer.drain()
                if budget[0] is not None:
                    budget[0] -= len(data)
                    if budget[0] < 0:
                        self.cuts += 1
                        break
                if slow and self.seconds_a_chunk:
                    await asyncio.sleep(self.seconds_a_chunk)
        if pair.silent and writer is pair.far:  # Envoy gave up; nobody tells ext_proc
            pair.near.close()
            return
        asyncio.get_running_loop().call_soon(self._forget, pair)

    def _forget(self, pair: _Pair) -> None:
        if pair in self.pairs:
            self.pairs.discard(pair)
            for writer in (pair.near, pair.far):
                _reset(writer)
            for task in pair.tasks:
                task.cancel()

    async def _end(self, pair: _Pair) -> None:
        self._forget(pair)
        await asyncio.gather(*pair.tasks, return_exceptions=True)


def _reset(writer: asyncio.StreamWriter) -> None:
    sock = writer.get_extra_info("socket")
    if sock is not None and not writer.is_closing():
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    writer.transport.abort()
