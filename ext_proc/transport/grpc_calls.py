"""gRPC over HTTP/2, server side, without sockets: calls of one connection, their messages and how they end.

    request   HEADERS :path, content-type, grpc-timeout?   DATA { flag, length, message }…   END_STREAM
    response  HEADERS :status 200                          DATA { 0, length, message }…      HEADERS grpc-status

Source: gRPC's "PROTOCOL-HTTP2.md". Compressed messages are not taken; none are sent.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Mapping
from struct import Struct
from typing import Final, Protocol
from urllib.parse import quote

from grpc import StatusCode

from ext_proc.buffered import Pieces
from ext_proc.transport.http2.connection import Connection
from ext_proc.transport.http2.frames import ErrorCode
from ext_proc.transport.http2.stream import Stream

_PREFIX: Final = Struct(">BI")
_PREFIX_BYTES: Final = 5


def _field(name: bytes, value: bytes) -> bytes:
    """A literal field without indexing, new name (RFC 7541, section 6.2.2)."""
    return b"\x00" + _length(name) + name + _length(value) + value


def _length(text: bytes) -> bytes:
    """The prefix of a string literal without Huffman code (RFC 7541, sections 5.1 and 5.2)."""
    rest = len(text) - 127
    if rest < 0:
        return bytes((len(text),))
    more = bytearray(b"\x7f")
    while rest >= 128:
        more.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes(more + bytes((rest,)))


_OK_HEADERS: Final = b"\x88" + _field(b"content-type", b"application/grpc")  # 0x88: `:status 200` of the static table
_OK_TRAILERS: Final = _field(b"grpc-status", b"0")
_NO_CODING: Final = _field(b"grpc-accept-encoding", b"identity")
_CONTENT_TYPE: Final = re.compile(rb"application/grpc(?:[+; ].*)?")
_TEXT: Final = _field(b"content-type", b"text/plain")
_NOT_GRPC: Final = b"\x08\x03415" + _TEXT  # `:status 415`: name 8 of the static table, literal value
_NO_POST: Final = b"\x08\x03405" + _TEXT + _field(b"allow", b"POST")
_WHY: Final = b"gRPC alone is served here: POST with content-type application/grpc\n"

_TIMEOUT: Final = re.compile(rb"([0-9]{1,8})([HMSmun])")
_SECONDS: Final = {b"H": 3600.0, b"M": 60.0, b"S": 1.0, b"m": 1e-3, b"u": 1e-6, b"n": 1e-9}
_MOST_MESSAGE_CHARACTERS: Final = 1_000
_SMALL_CHUNK: Final = 1 << 10
_MOST_TOGETHER: Final = 1 << 16
_MOST_KEPT_ALIVE: Final = 4
"""Bytes received that an unfinished message may keep alive for each byte of its own."""


class Method(Protocol):
    """One call of one method, told what its client does. It answers through the `Call` that it was made with."""

    def message(self, pieces: Pieces) -> None:
        """A message came, in pieces that nobody else holds: whoever empties the list lets go of their memory."""

    def half_closed(self) -> None:
        """No further message comes."""

    def gone(self) -> None:
        """The client left, or the connection did: nothing can be answered."""


class Call:
    """A call's way to its client."""

    __slots__ = ("_began", "_connection", "_over", "done", "flush", "method", "reading", "stream")

    def __init__(
        self, connection: Connection, stream: Stream, flush: Callable[[], None], over: Callable[[Stream], None]
    ) -> None:
        """`flush` puts what was sent on the wire; whoever answers outside of `Method.message` calls it.

        `over` is told of the end, once.
        """
        self._connection, self.stream, self.flush, self._over = connection, stream, flush, over
        self._began = self.done = False
        self.method: Method | None = None
        self.reading: _Reading | None = None  # of most calls the one message comes whole

    def send(self, message: bytes) -> None:
        """One message. Nothing happens when the call is over."""
        if self.done:
            return
        connection, stream = self._connection, self.stream
        if not self._began:
            self._began = True
            connection.send_headers(stream, _OK_HEADERS)
        connection.send_data(stream, _PREFIX.pack(0, len(message)) + message)

    def finish(
        self, status: StatusCode = StatusCode.OK, why: str = "", *, urgent: bool = True, more: bytes = b""
    ) -> None:
        """End the call. A second end is none. One that is not `urgent` may leave with what is sent next.

        `more` are further fields of the trailers.
        """
        if self.done:
            return
        self.done = True
        trailers = (_OK_TRAILERS if status is StatusCode.OK else _trailers(status, why)) + more
        block = trailers if self._began else _OK_HEADERS + trailers
        self._connection.send_headers(self.stream, block, end=True, urgent=urgent)
        self._over(self.stream)


class _Reading:
    """The messages of a request's body, as its parts come in.

    `have` bytes are held, `need` are wanted next: a prefix, or behind one (`inside`) a message.
    """

    __slots__ = ("chunks", "have", "inside", "need")

    def __init__(self) -> None:
        self.chunks: deque[memoryview | bytes | bytearray] = deque()
        self.have = 0
        self.need = _PREFIX_BYTES
        self.inside = False

    def add(self, chunk: memoryview) -> None:
        """Bytes that came. A chunk costs some 200 bytes beside its own: small ones are put together."""
        self.have += len(chunk)
        if len(chunk) >= _SMALL_CHUNK:
            self.chunks.append(_held(chunk))
            return
        last = self.chunks[-1] if self.chunks else None
        if isinstance(last, bytearray) and len(last) < _MOST_TOGETHER:
            last += chunk
        else:
            self.chunks.append(bytearray(chunk))

    @property
    def between(self) -> bool:
        """Nothing of a message has come."""
        return not self.have and not self.inside

    def take(self) -> Pieces:
        """The bytes that were needed, without a copy."""
        chunks, left = self.chunks, self.need
        taken: Pieces = []
        while left:
            chunk = chunks.popleft()
            if len(chunk) > left:
                view = memoryview(chunk)
                chunks.appendleft(view[left:])
                chunk = view[:left]
            taken.append(memoryview(chunk) if isinstance(chunk, bytearray) else chunk)
            left -= len(chunk)
        self.have -= self.need
        return taken


NewMethod = Callable[[Call], Method]


class Calls:
    """The calls of one connection: what the HTTP/2 connection tells its handler, as messages.

    `methods` maps a path to what answers it; any other is UNIMPLEMENTED. A message over `max_message_bytes` is
    RESOURCE_EXHAUSTED. `max_buffered_bytes` bounds what all unfinished messages of the connection hold; past it a
    stream ends with ENHANCE_YOUR_CALM. `after(seconds, callback)` runs a callback later and returns what cancels it;
    `flush` writes what is due.
    """

    def __init__(
        self,
        methods: Mapping[bytes, NewMethod],
        after: Callable[[float, Callable[[], None]], Callable[[], object]],
        flush: Callable[[], None],
        *,
        max_message_bytes: int,
        max_buffered_bytes: int,
    ) -> None:
        self._methods, self._after, self._flush = methods, after, flush
        self._max_message, self._max_buffered = max_message_bytes, max_buffered_bytes
        self._buffered = 0
        self._deadlines: dict[int, Callable[[], object]] = {}
        self.connection: Connection | None = None

    # http2.Handler

    def opened(self, stream: Stream) -> None:
        """A call begins."""
        assert self.connection is not None
        call = stream.call = Call(self.connection, stream, self._flush, self._forget)
        request = stream.request
        new = self._methods.get(request.path)
        if _CONTENT_TYPE.fullmatch(request.fields.get(b"content-type", b"")) is None:
            self._not_a_call(call, _NOT_GRPC)
        elif request.method != b"POST":
            self._not_a_call(call, _NO_POST)
        elif new is None:
            call.finish(StatusCode.UNIMPLEMENTED, "unknown method")
        else:
            call.method = new(call)
            if (timeout := request.fields.get(b"grpc-timeout")) is not None:
                self._deadline(call, timeout)

    def _not_a_call(self, call: Call, block: bytes) -> None:
        """To a client of HTTP that does not speak gRPC: its status, and a word."""
        assert self.connection is not None
        stream, call.done = call.stream, True
        self.connection.send_whole(stream, block, b"" if stream.request.method == b"HEAD" else _WHY)
        self._forget(stream)

    def data(self, stream: Stream, chunk: memoryview) -> None:
        """Bytes of the call's messages."""
        call: Call | None = stream.call
        if call is None or call.done or call.method is None:
            return
        reading = call.reading
        if (reading is None or reading.between) and self._whole(call, chunk):
            return
        if reading is None:
            reading = call.reading = _Reading()
        reading.add(chunk)
        self._buffered += len(chunk)
        if reading.have >= reading.need:
            self._take_messages(call, reading)
        if self._buffered > self._max_buffered and not call.done:
            self._give_up(call)

    def ended(self, stream: Stream) -> None:
        """The client half-closed."""
        call: Call | None = stream.call
        if call is None or call.done or call.method is None:
            return
        if call.reading is not None and not call.reading.between:
            self._end(call, StatusCode.INTERNAL, "the stream ended inside a message")
        else:
            call.method.half_closed()

    def gone(self, stream: Stream) -> None:
        """The client reset the stream, or the connection is over."""
        call: Call | None = stream.call
        if call is None or call.done:
            self._forget(stream)
            return
        call.done, method = True, call.method
        self._forget(stream)
        if method is not None:
            method.gone()

    # Messages.

    def _whole(self, call: Call, chunk: memoryview) -> bool:
        """The usual case: one message in one piece, passed on without a copy."""
        if len(chunk) < _PREFIX_BYTES:
            return False
        compressed, length = _PREFIX.unpack_from(chunk)
        if compressed or len(chunk) != length + _PREFIX_BYTES or length > self._max_message:
            return False
        assert call.method is not None
        call.method.message([chunk[_PREFIX_BYTES:]])
        return True

    def _take_messages(self, call: Call, reading: _Reading) -> None:
        """Pass on every whole message of what was read, and keep the rest."""
        method = call.method
        assert method is not None
        while not call.done and reading.have >= reading.need:
            self._buffered -= reading.need
            taken = reading.take()
            if reading.inside:
                reading.inside, reading.need = False, _PREFIX_BYTES
                method.message(taken)
            else:
                self._announced(call, reading, *_PREFIX.unpack(b"".join(taken)))
        if call.done:
            self._drop(reading)
        elif reading.chunks:
            reading.chunks[0] = _held(memoryview(reading.chunks[0]))

    def _announced(self, call: Call, reading: _Reading, compressed: int, length: int) -> None:
        if compressed:
            self._compressed(call, compressed)
        elif length > self._max_message:
            self._end(call, StatusCode.RESOURCE_EXHAUSTED, f"a message of {length} bytes")
        else:
            reading.inside, reading.need = True, length

    def _compressed(self, call: Call, flag: int) -> None:
        """gRPC's "compression.md": what is not taken is told, and the flag means nothing without a coding."""
        if flag != 1:
            self._end(call, StatusCode.INTERNAL, f"a message with the flag {flag}")
        elif call.stream.request.fields.get(b"grpc-encoding", b"identity") == b"identity":
            self._end(call, StatusCode.INTERNAL, "a compressed message without grpc-encoding")
        else:
            self._end(call, StatusCode.UNIMPLEMENTED, "compressed messages are not taken", _NO_CODING)

    def _drop(self, reading: _Reading) -> None:
        self._buffered -= reading.have
        reading.have = 0
        reading.chunks.clear()

    def _give_up(self, call: Call) -> None:
        """Too much is held: the stream that brought the last of it goes."""
        assert self.connection is not None
        self.connection.reset(call.stream, ErrorCode.ENHANCE_YOUR_CALM)
        self.gone(call.stream)

    # Ends.

    def _end(self, call: Call, status: StatusCode, why: str, more: bytes = b"") -> None:
        method = call.method
        call.finish(status, why, more=more)
        if method is not None:
            method.gone()

    def _deadline(self, call: Call, timeout: bytes) -> None:
        found = _TIMEOUT.fullmatch(timeout)
        if found is None:
            self._end(call, StatusCode.INTERNAL, "grpc-timeout is none")
            return
        seconds = int(found[1]) * _SECONDS[found[2]]
        passed = lambda: self._passed(call)  # noqa: E731 - one word for what the timer does
        self._deadlines[call.stream.id] = self._after(seconds, passed)

    def _passed(self, call: Call) -> None:
        if not call.done:
            self._end(call, StatusCode.DEADLINE_EXCEEDED, "deadline exceeded")
            call.flush()

    def _forget(self, stream: Stream) -> None:
        if self._deadlines and (cancel := self._deadlines.pop(stream.id, None)) is not None:
            cancel()
        call: Call | None = stream.call
        if call is None:
            return
        if call.reading is not None and call.reading.have:
            self._drop(call.reading)
        # A call, its method and its stream know each other: parted, they go at once, not when garbage is collected.
        stream.call = call.method = None


def _held(chunk: memoryview) -> memoryview | bytes:
    """What to keep of a chunk: a view of it, or a copy where that would keep alive far more than the chunk."""
    whole = chunk.obj
    return bytes(chunk) if isinstance(whole, bytes) and len(whole) > _MOST_KEPT_ALIVE * len(chunk) else chunk


def _trailers(status: StatusCode, why: str) -> bytes:
    """`grpc-message` is percent-encoded UTF-8."""
    number = str(status.value[0]).encode()
    text = quote(why[:_MOST_MESSAGE_CHARACTERS], safe=" !#$&'()*+,/:;=?@[]", errors="replace")
    return _field(b"grpc-status", number) + (_field(b"grpc-message", text.encode()) if text else b"")
