"""A client of raw frames, and a handler that writes down what it is told."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from hpack import Encoder, NeverIndexedHeaderTuple

from ext_proc.transport.http2 import frames
from ext_proc.transport.http2.connection import Connection
from ext_proc.transport.http2.frames import (
    ACK,
    DATA,
    END_HEADERS,
    END_STREAM,
    FRAME_HEADER,
    GOAWAY,
    HEADERS,
    PREFACE,
    RST_STREAM,
    ErrorCode,
    frame,
)
from ext_proc.transport.http2.limits import Limits
from ext_proc.transport.http2.stream import Stream

REQUEST: Final = (
    (":method", "POST"),
    (":scheme", "http"),
    (":path", "/service/Method"),
    (":authority", "tidegate"),
    ("content-type", "application/grpc"),
    ("te", "trailers"),
)

Fields = tuple[tuple[str, str], ...]


@lru_cache(1024)
def block(fields: Fields = REQUEST) -> bytes:
    """A header block that leaves no trace in the dynamic table."""
    return Encoder().encode([NeverIndexedHeaderTuple(*pair) for pair in fields])


def without(name: str) -> Fields:
    """The request without one of its fields."""
    return tuple(pair for pair in REQUEST if pair[0] != name)


def headers(stream_id: int = 1, fields: Fields = REQUEST, *, flags: int = END_HEADERS) -> bytes:
    """A HEADERS frame."""
    return frame(HEADERS, flags, stream_id, block(fields))


def data(stream_id: int = 1, payload: bytes = b"", *, end: bool = False) -> bytes:
    """A DATA frame."""
    return frame(DATA, END_STREAM if end else 0, stream_id, payload)


@dataclass
class Frame:
    """A frame that the server sent."""

    kind: int
    flags: int
    stream_id: int
    payload: bytes

    @property
    def code(self) -> ErrorCode:
        """Of RST_STREAM and GOAWAY."""
        at = 4 if self.kind == GOAWAY else 0
        return ErrorCode(int.from_bytes(self.payload[at : at + 4], "big"))


def frames_of(raw: bytes) -> list[Frame]:
    """What was sent, frame by frame."""
    found: list[Frame] = []
    while raw:
        high, low, kind, flags, stream_id = FRAME_HEADER.unpack_from(raw)
        end = 9 + (high << 8 | low)
        found.append(Frame(kind, flags, stream_id, raw[9:end]))
        raw = raw[end:]
    return found


@dataclass
class Seen:
    """What the handler was told: (event, stream, bytes)."""

    events: list[tuple[str, int, bytes]] = field(default_factory=list)
    streams: dict[int, Stream] = field(default_factory=dict)

    def opened(self, stream: Stream) -> None:
        self.streams[stream.id] = stream
        self.events.append(("opened", stream.id, b""))

    def data(self, stream: Stream, chunk: memoryview) -> None:
        self.events.append(("data", stream.id, bytes(chunk)))

    def ended(self, stream: Stream) -> None:
        self.events.append(("ended", stream.id, b""))

    def gone(self, stream: Stream) -> None:
        self.events.append(("gone", stream.id, b""))

    def body(self, stream_id: int = 1) -> bytes:
        return b"".join(chunk for event, of, chunk in self.events if event == "data" and of == stream_id)

    def names(self, stream_id: int = 1) -> list[str]:
        return [event for event, of, _ in self.events if of == stream_id]


class Client:
    """Talks to a Connection. `say` sends bytes; `answers` are the frames since the last look."""

    def __init__(self, limits: Limits | None = None, *, greet: bool = True) -> None:
        self.seen = Seen()
        self.connection = Connection(self.seen, limits or Limits())
        self.now = 0.0
        if greet:
            self.say(PREFACE, frames.settings({}), frames.SETTINGS_ACK)
            self.answers()

    def say(self, *parts: bytes) -> None:
        self.connection.receive(b"".join(parts), self.now)

    def answers(self) -> list[Frame]:
        return frames_of(self.connection.sender.take())

    def stream(self, stream_id: int = 1) -> Stream:
        return self.seen.streams[stream_id]

    def goaway(self) -> ErrorCode | None:
        """The code with which the connection was ended; None when it is open."""
        last = [f for f in self.answers() if f.kind == GOAWAY]
        assert bool(last) == self.connection.closed
        return last[-1].code if last else None

    def resets(self) -> dict[int, ErrorCode]:
        """Streams that the server reset since the last look. The connection is open."""
        assert not self.connection.closed
        return {f.stream_id: f.code for f in self.answers() if f.kind == RST_STREAM}


__all__ = ["ACK", "Client", "Frame", "block", "data", "frames_of", "headers", "without"]
