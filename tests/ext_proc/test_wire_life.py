"""How connections of the fast transport end: within their bounds, with everything that was asked for on them."""

from __future__ import annotations

import asyncio
import operator
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from struct import pack
from tempfile import TemporaryDirectory
from typing import Any, Final

import pytest
import uvloop
from prometheus_client import CollectorRegistry

from ext_proc.buffered import Pieces
from ext_proc.flow.later import Later
from ext_proc.health import EXTERNAL_PROCESSOR, Health
from ext_proc.transport import wire
from ext_proc.transport.grpcio import ByteSession
from ext_proc.transport.http2 import frames
from ext_proc.transport.http2.frames import (
    ACK,
    DATA,
    END_HEADERS,
    END_STREAM,
    FRAME_HEADER,
    GOAWAY,
    HEADERS,
    LARGEST_WINDOW,
    PING,
    PREFACE,
    U32,
    WINDOW_UPDATE,
    Setting,
    frame,
)
from ext_proc.transport.http2.limits import Limits
from ext_proc.transport.wire import WireServer
from tests.conftest import until
from tests.ext_proc.http2.client import REQUEST, Client, Fields, Frame, data, headers
from tests.ext_proc.parts import Picker, body_message
from tests.tls.authority import Authority
from tidegate.grpc_health import HEALTH
from tidegate.grpc_tls_files import TlsFiles, TlsMetrics, TlsWatch

MESSAGE: Final = body_message(b'{"model": "phi-3"}')
ASK: Final = pack(">BI", 0, len(MESSAGE)) + MESSAGE
EMPTY: Final = pack(">BI", 0, 0)
HELLO: Final = PREFACE + frames.settings({}) + frames.SETTINGS_ACK
GRACE_SECONDS: Final = 0.3
PATIENCE_SECONDS: Final = 60.0
LONG_SECONDS: Final = 600.0
"""Longer than any deadline of these tests: what ends before it did not wait for it."""


def call(path: str) -> Fields:
    return tuple((name, path if name == ":path" else value) for name, value in REQUEST)


PROCESS: Final = call(f"/{EXTERNAL_PROCESSOR}/Process")
WATCH: Final = call(f"/{HEALTH}/Watch")
CHECK: Final = call(f"/{HEALTH}/Check")


def request(stream_id: int) -> bytes:
    return headers(stream_id, PROCESS) + data(stream_id, ASK)


def on_both_loops(test: Callable[[], Coroutine[None, None, None]]) -> Callable[[Any], None]:
    """The coroutine as a test on asyncio's loop and one on uvloop's."""

    def both(run: Callable[[Coroutine[None, None, None]], None]) -> None:
        run(test())

    both.__name__ = test.__name__
    pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])(both)
    return both


@pytest.fixture(autouse=True)
def _soon_stuck(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "STUCK_SECONDS", 1.0)


class Running:
    """A server whose clients' protocols are seen from the moment they are accepted."""

    def __init__(
        self, session: Callable[[], ByteSession] | None, limits: Limits | None, tls: TlsWatch | None = None
    ) -> None:
        picker = Picker()
        self.metrics, self.health = picker.metrics, Health()
        self.server = WireServer(
            session or picker.session, self.health, picker.metrics, max_body_bytes=1 << 20, limits=limits, tls=tls
        )
        self.accepted: list[Any] = []
        new = self.server._client
        self.server._client = lambda: self._kept(new())  # type: ignore[method-assign]

    def _kept(self, client: Any) -> Any:
        self.accepted.append(client)
        return client

    async def start(self) -> None:
        self.port = int((await self.server.start("127.0.0.1:0")).rpartition(":")[2])

    @property
    def clients(self) -> int:
        return len(self.server._clients)

    async def alone(self) -> Any:
        """The one client, once it joined."""
        await until(lambda: self.clients == 1, what="a client")
        (client,) = self.server._clients
        return client

    async def nobody(self) -> None:
        await until(lambda: not self.clients, what="the last client's end")


@asynccontextmanager
async def serving(
    session: Callable[[], ByteSession] | None = None, limits: Limits | None = None, tls: TlsWatch | None = None
) -> AsyncIterator[Running]:
    running = Running(session, limits, tls)
    await running.start()
    try:
        yield running
    finally:
        await running.server.stop(0)
        await running.nobody()


class Peer:
    """A client of raw frames, which reads only when it is told to. `heard` is what it read so far."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock, self._raw, self.heard = sock, b"", list[Frame]()
        self.over = False

    def say(self, *parts: bytes) -> None:
        """Everything lies at the server's socket when this returns, which no loop has looked at meanwhile."""
        self._sock.setblocking(True)
        self._sock.sendall(b"".join(parts))
        self._sock.setblocking(False)

    def half_close(self) -> None:
        self._sock.shutdown(socket.SHUT_WR)

    def read(self, most_bytes: int = 65_536) -> None:
        """What is there, without waiting."""
        try:
            part = self._sock.recv(most_bytes)
        except BlockingIOError:
            return
        except ConnectionError:
            part = b""
        self.over = self.over or not part
        self._raw += part
        new, self._raw = parsed(self._raw)
        self.heard += new

    async def hears(self, what: Callable[[list[Frame]], object]) -> None:
        def heard() -> object:
            self.read()
            return what(self.heard)

        await until(heard, what=f"the frame that is waited for, in {self.heard}")

    async def hears_the_end(self) -> None:
        await self.hears(lambda _: self.over)

    async def acknowledges(self) -> None:
        """Hear the PING behind the first GOAWAY, and answer to it."""
        await self.hears(lambda heard: of(heard, PING))
        assert last_streams(self.heard) == [LARGEST_WINDOW]
        self.say(frame(PING, ACK, 0, of(self.heard, PING)[0].payload))


@asynccontextmanager
async def connected(running: Running, *said: bytes, receives_bytes: int | None = None) -> AsyncIterator[Peer]:
    with socket.socket() as sock:
        if receives_bytes is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receives_bytes)
        sock.connect(("127.0.0.1", running.port))
        peer = Peer(sock)
        peer.say(*said)
        yield peer


def parsed(raw: bytes) -> tuple[list[Frame], bytes]:
    """Whole frames, and the rest."""
    found: list[Frame] = []
    while len(raw) >= FRAME_HEADER.size:
        high, low, kind, flags, stream_id = FRAME_HEADER.unpack_from(raw)
        end = FRAME_HEADER.size + (high << 8 | low)
        if len(raw) < end:
            break
        found.append(Frame(kind, flags, stream_id, raw[FRAME_HEADER.size : end]))
        raw = raw[end:]
    return found, raw


def of(heard: list[Frame], kind: int) -> list[Frame]:
    return [one for one in heard if one.kind == kind]


def ends(heard: list[Frame]) -> list[Frame]:
    """Header sections that end a stream."""
    return [one for one in of(heard, HEADERS) if one.flags & END_STREAM]


def answers(heard: list[Frame]) -> list[int]:
    """Streams that got a message."""
    return [one.stream_id for one in of(heard, DATA)]


def last_streams(heard: list[Frame]) -> list[int]:
    """Of each GOAWAY."""
    return [U32.unpack_from(one.payload)[0] for one in of(heard, GOAWAY)]


# A client that does not read.


class Big:
    """Answers each message with 20 kB."""

    def handle(self, data: bytes | Pieces) -> bytes:
        return b"y" * 20_000


WIDE: Final = (
    PREFACE
    + frames.settings({Setting.INITIAL_WINDOW_SIZE: LARGEST_WINDOW})
    + frames.SETTINGS_ACK
    + frame(WINDOW_UPDATE, 0, 0, U32.pack(LARGEST_WINDOW - 65_535))
)


async def narrow(running: Running) -> Any:
    """The server's transport, whose socket takes little."""
    transport = (await running.alone())._transport
    transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    return transport


@on_both_loops
async def test_a_client_that_half_closes_its_socket_and_reads_nothing_is_cut() -> None:
    async with serving(Big) as running, connected(running, WIDE, receives_bytes=4096) as peer:
        transport = await narrow(running)
        streams = running.accepted[0]._connection.streams
        while not transport.get_write_buffer_size():
            asked = len(streams) + 1
            peer.say(request(2 * asked - 1))
            await until(partial(operator.contains, streams, 2 * asked - 1), what="its stream")
        peer.half_close()
        await running.nobody()


@on_both_loops
async def test_a_client_that_half_closes_its_socket_hears_what_was_due() -> None:
    async with serving() as running, connected(running, HELLO, request(1)) as peer:
        await peer.hears(answers)
        peer.say(data(1, b"", end=True))  # its answer leaves with what is sent next, or after some patience
        peer.half_close()
        await peer.hears_the_end()
        assert answers(peer.heard) == [1]
        assert [one.stream_id for one in of(peer.heard, HEADERS) if one.flags & END_STREAM] == [1]


async def test_a_client_that_breaks_a_rule_and_reads_only_a_part_of_its_answers_is_cut(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On asyncio's loop, whose clock the test moves: uvloop says only of the last 16 bytes that writing may go on."""
    loop, ahead_seconds = asyncio.get_running_loop(), 0.0
    clock = loop.time
    monkeypatch.setattr(wire, "STUCK_SECONDS", LONG_SECONDS)
    monkeypatch.setattr(loop, "time", lambda: clock() + ahead_seconds)
    async with serving(Big) as running, connected(running, WIDE, receives_bytes=4096) as peer:
        transport = await narrow(running)
        low_bytes = transport.get_write_buffer_limits()[0]
        peer.say(*(request(2 * n + 1) for n in range(20)), frame(PING, 0, 0, b"broken"))
        await until(transport.is_closing, what="the fault")
        assert transport.get_write_buffer_size() > low_bytes
        while transport.get_write_buffer_size() > low_bytes:  # below it asyncio says that writing may go on
            peer.read(2_000)
            await asyncio.sleep(0)
        assert running.clients == 1
        ahead_seconds = LONG_SECONDS
        await running.nobody()
        assert not of(peer.heard, GOAWAY)


# Work does not outlive its connection.


@on_both_loops
async def test_an_answer_to_come_is_cancelled_when_its_first_word_ends_the_connection() -> None:
    coming: list[asyncio.Future[bytes]] = []

    class Slow:
        def handle(self, data: bytes | Pieces) -> Later:
            coming.append(asyncio.get_running_loop().create_future())
            return Later(b"t" * 300, coming[-1])

    shut = frames.settings({Setting.INITIAL_WINDOW_SIZE: 0})
    asks = [request(2 * n + 1) for n in range(30)]
    limits = Limits(max_waiting_bytes=5_000)
    async with serving(Slow, limits) as running, connected(running, PREFACE, shut, frames.SETTINGS_ACK, *asks) as peer:
        await peer.hears(lambda heard: of(heard, GOAWAY))
        assert 1 < len(coming) < 30
        await until(lambda: all(one.cancelled() for one in coming), what="their end")
        assert running.metrics.open_streams == 0


@on_both_loops
async def test_a_watch_whose_first_word_ends_the_connection_leaves_no_task() -> None:
    shut = frames.settings({Setting.INITIAL_WINDOW_SIZE: 0})
    asks = [headers(2 * n + 1, WATCH) + data(2 * n + 1, EMPTY) for n in range(30)]
    before = len(asyncio.all_tasks())
    limits = Limits(max_waiting_bytes=1_000)
    async with serving(None, limits) as running, connected(running, PREFACE, shut, frames.SETTINGS_ACK, *asks) as peer:
        await peer.hears(lambda heard: of(heard, GOAWAY))
        await until(lambda: len(asyncio.all_tasks()) == before, what="no task of a watch")


@on_both_loops
async def test_calls_of_one_message_are_unimplemented_for_none_and_for_two() -> None:
    none = headers(1, WATCH, flags=END_HEADERS | END_STREAM) + headers(3, CHECK, flags=END_HEADERS | END_STREAM)
    two = headers(5, WATCH) + data(5, 2 * EMPTY) + headers(7, CHECK) + data(7, 2 * EMPTY, end=True)
    async with serving() as running, connected(running, HELLO, none, two) as peer:
        await peer.hears(lambda heard: len(ends(heard)) == 4)
        assert all(b"grpc-status\x0212" in end.payload for end in ends(peer.heard))


# The server stops.


@on_both_loops
async def test_a_request_on_the_line_is_answered_by_a_server_that_stops() -> None:
    async with serving() as running, connected(running, HELLO) as peer:
        await running.alone()
        await peer.hears(lambda heard: len(heard) >= 3)
        peer.say(headers(1, PROCESS), data(1, ASK, end=True))
        stopping = asyncio.create_task(running.server.stop(LONG_SECONDS))
        await peer.acknowledges()
        await peer.hears_the_end()
        assert answers(peer.heard) == [1]
        assert last_streams(peer.heard) == [LARGEST_WINDOW, 1]
        await asyncio.wait_for(stopping, PATIENCE_SECONDS)


@on_both_loops
async def test_a_request_that_was_sent_before_the_announcement_was_heard_is_answered() -> None:
    async with serving() as running, connected(running, HELLO) as peer:
        await running.alone()
        stopping = asyncio.create_task(running.server.stop(LONG_SECONDS))
        await peer.hears(lambda heard: of(heard, PING))
        peer.say(headers(1, PROCESS), data(1, ASK, end=True))
        await peer.hears(answers)
        assert not stopping.done()
        await peer.acknowledges()
        await peer.hears_the_end()
        assert last_streams(peer.heard) == [LARGEST_WINDOW, 1]
        await asyncio.wait_for(stopping, PATIENCE_SECONDS)


@on_both_loops
async def test_a_stop_waits_for_open_streams_of_a_client_that_heard_of_it() -> None:
    async with serving() as running, connected(running, HELLO, request(1)) as peer:
        await peer.hears(answers)
        stopping = asyncio.create_task(running.server.stop(LONG_SECONDS))
        await peer.acknowledges()
        await until(lambda: running.accepted[0]._connection.drained, what="the word that it heard")
        assert not stopping.done()
        peer.say(data(1, b"", end=True))
        await peer.hears_the_end()
        assert [one.stream_id for one in of(peer.heard, HEADERS) if one.flags & END_STREAM] == [1]
        await asyncio.wait_for(stopping, PATIENCE_SECONDS)


@on_both_loops
async def test_an_idle_client_that_answers_pings_does_not_hold_up_a_stop() -> None:
    async with serving() as running, connected(running, HELLO) as peer:
        await running.alone()
        stopping = asyncio.create_task(running.server.stop(LONG_SECONDS))
        await peer.acknowledges()
        await asyncio.wait_for(stopping, PATIENCE_SECONDS)
        await peer.hears_the_end()
        assert last_streams(peer.heard) == [LARGEST_WINDOW, 0]


@pytest.mark.parametrize("said", [b"", PREFACE[:9], PREFACE, HELLO], ids=["nothing", "a part", "preface", "handshake"])
async def test_a_client_that_answers_no_ping_holds_up_a_stop_no_longer_than_the_grace(said: bytes) -> None:
    for seconds in (0, GRACE_SECONDS):
        async with serving() as running, connected(running, said) as peer:
            await running.alone()
            await asyncio.wait_for(running.server.stop(seconds), PATIENCE_SECONDS)
            await peer.hears_the_end()
            assert last_streams(peer.heard) == [LARGEST_WINDOW, 0]


@on_both_loops
async def test_the_last_word_leaves_before_the_cut_at_the_end_of_the_grace() -> None:
    async with serving() as running, connected(running, HELLO, request(1)) as peer:
        await peer.hears(answers)
        await asyncio.wait_for(running.server.stop(GRACE_SECONDS), PATIENCE_SECONDS)
        await peer.hears_the_end()
        assert last_streams(peer.heard) == [LARGEST_WINDOW, 1]
        await until(lambda: running.metrics.open_streams == 0, what="no open stream")


def test_only_the_answer_to_the_announcement_says_that_it_was_heard() -> None:
    client = Client()
    client.say(frame(PING, ACK, 0, b"draining"))
    client.connection.drain()
    client.connection.drain()
    (goaway, ping) = client.answers()
    assert (goaway.kind, ping.kind, ping.flags) == (GOAWAY, PING, 0)
    client.say(frame(PING, 0, 0, ping.payload), frame(PING, ACK, 0, b"tidegate"))
    assert not client.connection.drained
    client.say(frame(PING, ACK, 0, ping.payload))
    assert client.connection.drained


# Clients that join while the server stops.


def new_watch() -> TlsWatch:
    with TemporaryDirectory() as folder:  # it is read at once
        written = Authority().leaf("localhost").write(Path(folder), "server")
        files = TlsFiles("--tls-", written.certificate, written.key, None)
        return TlsWatch("server", files, TlsMetrics(CollectorRegistry()))


def trusting() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    return context


class TlsPeer:
    """A client that connects first and shakes hands later. `frames()` reads to the end of the connection."""

    def __init__(self, running: Running) -> None:
        self._sock = socket.create_connection(("127.0.0.1", running.port))
        self._raw = b""

    async def join(self, *said: bytes) -> None:
        self._sock.setblocking(False)
        self._reader, self._writer = await asyncio.open_connection(
            sock=self._sock, ssl=trusting(), server_hostname="localhost"
        )
        self._writer.write(b"".join(said))

    async def hears(self, what: Callable[[list[Frame]], object]) -> list[Frame]:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not what(parsed(self._raw)[0]):
                part = await self._reader.read(65_536)
                assert part, f"the end, behind {parsed(self._raw)[0]}"
                self._raw += part
        return parsed(self._raw)[0]

    async def hears_the_end(self) -> list[Frame]:
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                while part := await self._reader.read(65_536):
                    self._raw += part
        except ConnectionError:
            pass
        return parsed(self._raw)[0]

    def leave(self) -> None:
        self._writer.transport.abort()


@on_both_loops
async def test_a_client_whose_handshake_ends_while_the_server_stops_is_served_and_told_of_the_end() -> None:
    async with serving(tls=new_watch()) as running:
        first, late = TlsPeer(running), TlsPeer(running)
        await first.join(HELLO)
        await until(lambda: len(running.accepted) == 2 and running.clients == 1, what="one in its handshake")
        stopping = asyncio.create_task(running.server.stop(LONG_SECONDS))
        await first.hears(lambda heard: of(heard, PING))
        await late.join(HELLO, headers(1, PROCESS), data(1, ASK, end=True))
        heard = await late.hears(lambda heard: answers(heard) and of(heard, PING))
        assert last_streams(heard) == [LARGEST_WINDOW]
        first.leave()
        assert not stopping.done()
        late._writer.write(frame(PING, ACK, 0, of(heard, PING)[0].payload))
        assert last_streams(await late.hears_the_end()) == [LARGEST_WINDOW, 1]
        await asyncio.wait_for(stopping, PATIENCE_SECONDS)
        late.leave()


@on_both_loops
async def test_a_client_whose_handshake_ends_while_the_server_stops_is_cut_with_the_others() -> None:
    async with serving(tls=new_watch()) as running:
        first, late = TlsPeer(running), TlsPeer(running)
        await first.join(HELLO)
        await until(lambda: len(running.accepted) == 2 and running.clients == 1, what="one in its handshake")
        stopping = asyncio.create_task(running.server.stop(LONG_SECONDS))
        await first.hears(lambda heard: of(heard, PING))
        await late.join(HELLO, request(1))
        await late.hears(answers)
        await running.server.stop(0)  # as at the end of the grace
        assert last_streams(await late.hears_the_end()) == [LARGEST_WINDOW, 1]
        await asyncio.wait_for(stopping, PATIENCE_SECONDS)
        await running.nobody()
        first.leave()
        late.leave()


@on_both_loops
async def test_a_client_whose_handshake_ends_after_the_server_stopped_is_told_and_closed() -> None:
    async with serving(tls=new_watch()) as running:
        late = TlsPeer(running)
        await until(lambda: len(running.accepted) == 1, what="one in its handshake")
        await running.server.stop(LONG_SECONDS)
        await late.join(HELLO, request(1))
        heard = await late.hears_the_end()
        assert last_streams(heard) == [LARGEST_WINDOW, 0]
        assert not answers(heard)
        late.leave()
        await running.nobody()


async def test_a_start_that_fails_leaves_no_timer() -> None:
    async with serving() as running:
        other = Running(None, None)
        with pytest.raises(OSError, match="cannot listen on"):
            await other.server.start(f"127.0.0.1:{running.port}")
        assert other.server._ticks is None
