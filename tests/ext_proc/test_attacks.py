"""Attacks on a server of ours over sockets: the attacker is told to calm down, and a client beside is served."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Callable, Iterator
from struct import pack
from typing import Final

import pytest
from grpc import aio

from ext_proc.health import EXTERNAL_PROCESSOR, Health
from ext_proc.transport.http2 import frames
from ext_proc.transport.http2.connection import Connection
from ext_proc.transport.http2.frames import (
    CONTINUATION,
    END_HEADERS,
    FRAME_HEADER,
    GOAWAY,
    HEADERS,
    PING,
    PREFACE,
    RST_STREAM,
    U32,
    WINDOW_UPDATE,
    ErrorCode,
    Setting,
    frame,
)
from ext_proc.transport.http2.limits import Limits
from ext_proc.transport.wire import WireServer
from tests.conftest import until
from tests.ext_proc.http2.client import REQUEST, block, data, headers
from tests.ext_proc.parts import Answer, Picker, body_message

PROCESS: Final = f"/{EXTERNAL_PROCESSOR}/Process"
FIELDS: Final = tuple((name, PROCESS if name == ":path" else value) for name, value in REQUEST)
LIMITS: Final = Limits(max_waiting_bytes=1 << 20)
BOMB: Final = block(FIELDS) + b"\x40\x01x\x7f\x81\x1e" + b"y" * 4_000 + b"\xbe" * 1_000
MESSAGE: Final = body_message(b'{"model": "phi-3"}')
AT_ONCE: Final = 200
ASKS: Final = pack(">BI", 0, len(MESSAGE)) + MESSAGE


def numbered(of: Callable[[int], bytes]) -> Iterator[bytes]:
    return map(of, itertools.count(1, 2))


def no_window() -> Iterator[bytes]:
    """Answers are asked for, and never let out."""
    yield frames.settings({Setting.INITIAL_WINDOW_SIZE: 0})
    yield from numbered(lambda n: headers(n, FIELDS) + data(n, ASKS))


ATTACKS: Final[dict[str, Callable[[], Iterator[bytes]]]] = {
    "rapid resets": lambda: numbered(lambda n: headers(n, FIELDS) + frame(RST_STREAM, 0, n, U32.pack(8))),
    "resets that we are made to send": lambda: numbered(
        lambda n: headers(n, FIELDS) + frame(WINDOW_UPDATE, 0, n, U32.pack(0))
    ),
    "pings": lambda: itertools.repeat(frame(PING, 0, 0, b"12345678")),
    "settings": lambda: itertools.repeat(frames.settings({Setting.HEADER_TABLE_SIZE: 0})),
    "empty data": lambda: itertools.chain([headers(1, FIELDS)], itertools.repeat(data(1, b""))),
    "small window updates": lambda: itertools.repeat(frame(WINDOW_UPDATE, 0, 0, U32.pack(1))),
    "continuations": lambda: itertools.chain(
        [frame(HEADERS, 0, 1, b"")], itertools.repeat(frame(CONTINUATION, 0, 1, b"x"))
    ),
    "an HPACK bomb": lambda: iter([frame(HEADERS, END_HEADERS, 1, BOMB)]),
    "more streams than are allowed": lambda: numbered(lambda n: headers(n, FIELDS)),
    "a window of zero": no_window,
}


class Running:
    """A server, and a client that means well."""

    def __init__(self) -> None:
        self.picker = Picker()
        self.server = WireServer(
            self.picker.session, Health(), self.picker.metrics, max_body_bytes=1 << 20, limits=LIMITS
        )

        self.connections: list[Connection] = []
        new = self.server.connection
        self.server.connection = lambda client: self._kept(new(client))  # type: ignore[method-assign]

    def _kept(self, connection: Connection) -> Connection:
        self.connections.append(connection)
        return connection

    async def start(self) -> None:
        self.address = await self.server.start("127.0.0.1:0")
        self.channel = aio.insecure_channel(self.address)

    async def ask(self) -> Answer:
        call = self.channel.stream_stream(PROCESS)()
        await call.write(MESSAGE)
        answer = Answer.read(await call.read())
        await call.done_writing()
        await call.code()
        return answer


@pytest.fixture
async def running() -> AsyncIterator[Running]:
    one = Running()
    await one.start()
    yield one
    await one.channel.close()
    await one.server.stop(0)


async def attack(address: str, said: Iterator[bytes]) -> ErrorCode | None:
    """Talk until the server hangs up; the code of its GOAWAY.

    Much is said at a time: at one word a turn of the loop a busy machine would be no attacker.
    """
    reader, writer = await asyncio.open_connection(*address.split(":"))
    writer.write(PREFACE + frames.settings({}) + frames.SETTINGS_ACK)
    heard = bytearray()

    async def listen() -> None:
        with contextlib.suppress(ConnectionError):
            while part := await reader.read(65_536):
                heard.extend(part)

    listening = asyncio.create_task(listen())
    with contextlib.suppress(ConnectionError):
        while parts := list(itertools.islice(said, AT_ONCE)):
            if listening.done():
                break
            writer.write(b"".join(parts))
            await asyncio.sleep(0)
            await writer.drain()
    await asyncio.wait_for(listening, 60)
    writer.transport.abort()
    return goaway(bytes(heard))


def goaway(raw: bytes) -> ErrorCode | None:
    while len(raw) >= 9:
        high, low, kind, _, _ = FRAME_HEADER.unpack_from(raw)
        end = 9 + (high << 8 | low)
        if kind == GOAWAY:
            return ErrorCode(int.from_bytes(raw[13:17], "big"))
        raw = raw[end:]
    return None


@pytest.mark.parametrize("name", ATTACKS)
async def test_an_attack_ends_with_a_word_and_others_are_served_meanwhile(running: Running, name: str) -> None:
    attacking = asyncio.create_task(attack(running.address, ATTACKS[name]()))
    asked = 0
    while not attacking.done() or not asked:
        assert (await asyncio.wait_for(running.ask(), 60)).cluster == "phi-3"
        asked += 1
    assert await attacking in {ErrorCode.ENHANCE_YOUR_CALM, None}  # None: a reset overtook the word
    assert [one.fault.code for one in running.connections if one.fault] == [ErrorCode.ENHANCE_YOUR_CALM]
    await until(lambda: running.picker.metrics.open_streams == 0, what="no open stream")
    await until(lambda: len(running.server._clients) == 1, what="the other client alone")
