"""The cases of h2spec by its own numbers, played against what serves calls: (what the client sends, what it hears).

Each list of bytes is sent part by part; what is heard of the last part is what counts. h2spec asks for a page with GET.
"""

from __future__ import annotations

from typing import Final

import pytest

from ext_proc.transport.grpc_calls import Calls
from ext_proc.transport.http2 import frames
from ext_proc.transport.http2.connection import Connection
from ext_proc.transport.http2.frames import (
    ACK,
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    GOAWAY,
    HEADERS,
    PADDED,
    PING,
    PREFACE,
    PRIORITY,
    PRIORITY_FLAG,
    PUSH_PROMISE,
    RST_STREAM,
    SETTINGS,
    U32,
    WINDOW_UPDATE,
    Setting,
    frame,
)
from tests.ext_proc.http2.client import Frame, block, data, frames_of

WHOLE: Final = END_HEADERS | END_STREAM
ZEROS: Final = bytes(8)
PINGS: Final = frame(PING, 0, 0, ZEROS)
LONG: Final = block((("x-dummy0", "x" * 4_000),))
LARGEST: Final = frames.LARGEST_WINDOW
MOST_STREAMS: Final = 4_096
CUT: Final = b"\x00\x85\xf2\xb2\x4a\x84\xff"
"""A literal whose name is `x-test`, in Huffman code, up to its value."""


def page(*more: tuple[str, str], method: str = "GET", path: str = "/", without: str = "") -> bytes:
    """The block of a request for a page."""
    known = ((":method", method), (":scheme", "http"), (":path", path), (":authority", "127.0.0.1"))
    return block((*(pair for pair in known if pair[0] not in without.split()), *more))


def get(stream_id: int = 1, section: bytes | None = None, *, flags: int = WHOLE) -> bytes:
    return frame(HEADERS, flags, stream_id, page() if section is None else section)


def post(*more: tuple[str, str]) -> bytes:
    """A request whose body follows."""
    return get(1, page(*more, method="POST"), flags=END_HEADERS)


def trailers(flags: int, *fields: tuple[str, str]) -> bytes:
    return frame(HEADERS, flags, 1, block(fields))


def priority(stream_id: int, on: int = 0, weight: int = 255) -> bytes:
    return frame(PRIORITY, 0, stream_id, U32.pack(on) + bytes((weight,)))


def reset(stream_id: int, code: int = 8) -> bytes:
    return frame(RST_STREAM, 0, stream_id, U32.pack(code))


def update(stream_id: int, increment: int) -> bytes:
    return frame(WINDOW_UPDATE, 0, stream_id, U32.pack(increment))


def more(section: bytes = LONG, stream_id: int = 1, *, end: bool = True) -> bytes:
    return frame(CONTINUATION, END_HEADERS if end else 0, stream_id, section)


def setting(*pairs: tuple[int, int]) -> bytes:
    return frame(SETTINGS, 0, 0, b"".join(frames.SETTING.pack(*pair) for pair in pairs))


def window(*sizes: int) -> bytes:
    return setting(*((Setting.INITIAL_WINDOW_SIZE, size) for size in sizes))


_NAMES: Final = {
    DATA: "data",
    HEADERS: "answer",
    RST_STREAM: "reset",
    GOAWAY: "goaway",
    PING: "ping",
    SETTINGS: "settings",
}


def said(one: Frame) -> str:
    """A frame of the server in a word or two. It sends PING and SETTINGS, once it has begun, as acknowledgements alone."""
    name = _NAMES.get(one.kind, "other")
    if one.kind in {RST_STREAM, GOAWAY}:
        return f"{name} {one.code.name}"
    return f"{name} {len(one.payload)}" if one.kind == DATA else name


_FORMS: Final = [
    form + literal
    for form in (b"\x40", b"\x00", b"\x10")
    for literal in (
        b"\x0auser-agent\x06h2spec",
        b"\x87\xb5\x05\xb1\x61\xcc\x5a\x93\x84\x9c\x48\xac\xa4",
        b"\x06x-test\x06h2spec",
        CUT[1:] + b"\x84\x9c\x48\xac\xa4",
    )
]
GENERIC: Final = {
    "2/1": ([priority(1) + PINGS], "ping"),
    "2/2": ([window(0) + get(), update(1, 1)], "data 1"),
    "2/3": ([window(0) + get() + priority(1), update(1, 1)], "data 1"),
    "2/4": ([get() + reset(1) + PINGS], "ping"),
    "2/5": ([get(), priority(1) + PINGS], "ping"),
    "3.1/1": ([post() + data(1, b"test", end=True)], "answer"),
    "3.1/2": ([post() + data(1, b"test") + data(1, b"test", end=True)], "answer"),
    "3.1/3": ([post() + frame(DATA, PADDED | END_STREAM, 1, b"\x06testpadded")], "answer"),
    "3.2/1": ([get()], "answer"),
    "3.2/2": ([get(1, b"\x08" + page() + ZEROS, flags=WHOLE | PADDED)], "answer"),
    "3.2/3": ([get(1, b"\0\0\0\0\xff" + page(), flags=WHOLE | PRIORITY_FLAG)], "answer"),
    "3.3/1": ([priority(1, weight=0) + get()], "answer"),
    "3.3/2": ([priority(1) + get()], "answer"),
    "3.3/3": ([priority(3, on=1, weight=0) + get()], "answer"),
    "3.3/4": ([priority(1, on=1 << 31, weight=0) + get()], "answer"),
    "3.3/5": ([priority(3) + get()], "answer"),
    "3.4/1": ([get(flags=END_HEADERS) + reset(1) + PINGS], "ping"),
    "3.5/1": ([setting((1, 4096), (2, 1), (3, 100), (4, 65535), (5, 16384), (6, 100))], "settings"),
    "3.7/1": ([PINGS], "ping"),
    "3.8/1": ([frame(GOAWAY, 0, 0, ZEROS + b"h2spec") + PINGS], "ping"),
    "3.9/1": ([update(0, 1) + PINGS], "ping"),
    "3.9/2": ([get() + update(1, 1)], "answer"),
    "3.10/1": ([get(1, page()[:5], flags=END_STREAM) + more(page()[5:])], "answer"),
    "3.10/2": ([get(1, page()[:5], flags=END_STREAM) + more(page()[5:10], end=False) + more(page()[10:])], "answer"),
    "4/1": ([get()], "answer"),
    "4/2": ([get(1, page(method="HEAD"))], "answer"),
    "4/3": ([post() + data(1, b"test", end=True)], "answer"),
    "4/4": ([post(("trailer", "x-test")) + data(1, b"test") + trailers(WHOLE, ("x-test", "ok"))], "answer"),
    "5/1": ([get(1, page() + b"\xba")], "answer"),
    **{f"5/{number}": ([get(1, page() + form)], "answer") for number, form in enumerate(_FORMS, 2)},
    "5/14": ([get(1, b"\x3f\x61" + page())], "answer"),
    "5/15": ([get(1, b"\x3f\x61\x3f\xe1\x1f" + page())], "answer"),
}  # fmt: skip
HTTP2: Final = {
    "4.1/1": ([frame(0x16, 0, 0, ZEROS) + PINGS], "ping"),
    "4.1/2": ([frame(PING, 0x16, 0, ZEROS)], "ping"),
    "4.1/3": ([frame(PING, 0x16, 1 << 31, ZEROS)], "ping"),
    "4.2/1": ([post() + data(1, b"x" * 16_384, end=True)], "answer"),
    "4.2/2": ([post() + data(1, b"x" * 16_385, end=True)], "goaway FRAME_SIZE_ERROR"),
    "4.2/3": ([get(1, page() + 5 * LONG)], "goaway FRAME_SIZE_ERROR"),
    "4.3/1": ([get(1, b"\x40")], "goaway COMPRESSION_ERROR"),
    "4.3/2": ([get(flags=0) + priority(1) + more()], "goaway PROTOCOL_ERROR"),
    "4.3/3": ([get(flags=0) + get(3) + more()], "goaway PROTOCOL_ERROR"),
    "5.1/1": ([data(1, b"test", end=True)], "goaway PROTOCOL_ERROR"),
    "5.1/2": ([reset(1)], "goaway PROTOCOL_ERROR"),
    "5.1/3": ([update(1, 100)], "goaway PROTOCOL_ERROR"),
    "5.1/4": ([more(page())], "goaway PROTOCOL_ERROR"),
    "5.1/5": ([get() + data(1, b"test", end=True)], "reset STREAM_CLOSED"),
    "5.1/6": ([get() + get()], "goaway STREAM_CLOSED"),
    "5.1/7": ([get() + more(page())], "goaway PROTOCOL_ERROR"),
    "5.1/8": ([get(flags=END_HEADERS) + reset(1) + data(1, b"test", end=True)], "reset STREAM_CLOSED"),
    "5.1/9": ([get(flags=END_HEADERS) + reset(1) + get()], "goaway STREAM_CLOSED"),
    "5.1/10": ([get(flags=END_HEADERS) + reset(1) + more()], "goaway PROTOCOL_ERROR"),
    "5.1/11": ([get(), data(1, b"test", end=True)], "reset STREAM_CLOSED"),
    "5.1/12": ([get(), get()], "goaway STREAM_CLOSED"),
    "5.1/13": ([get(), more()], "goaway PROTOCOL_ERROR"),
    "5.1.1/1": ([get(2)], "goaway PROTOCOL_ERROR"),
    "5.1.1/2": ([get(5) + get(3)], "goaway PROTOCOL_ERROR"),
    "5.1.2/1": ([window(0), *(get(2 * number + 1) for number in range(MOST_STREAMS + 1))], "reset REFUSED_STREAM"),
    "5.3.1/1": ([get(1, b"\0\0\0\1\xff" + page(), flags=WHOLE | PRIORITY_FLAG)], "goaway PROTOCOL_ERROR"),
    "5.3.1/2": ([priority(1, on=1)], "goaway PROTOCOL_ERROR"),
    **{f"5.4.1/{number}": ([frame(PING, 0, 3, ZEROS)], "goaway PROTOCOL_ERROR") for number in (1, 2)},
    "5.5/1": ([frame(0x16, 0, 0, ZEROS) + PINGS], "ping"),
    "5.5/2": ([get(flags=END_STREAM) + frame(0x16, 0, 0, ZEROS)], "goaway PROTOCOL_ERROR"),
    "6.1/1": ([data(0, b"test", end=True)], "goaway PROTOCOL_ERROR"),
    "6.1/2": ([get(1, page(method="POST")) + data(1, b"test", end=True)], "reset STREAM_CLOSED"),
    "6.1/3": ([post(("content-length", "4")) + frame(DATA, PADDED | END_STREAM, 1, b"\x06Test")], "goaway PROTOCOL_ERROR"),
    "6.2/1": ([get(flags=0) + priority(1) + more()], "goaway PROTOCOL_ERROR"),
    "6.2/2": ([get(flags=0) + get(3) + more()], "goaway PROTOCOL_ERROR"),
    "6.2/3": ([get(0)], "goaway PROTOCOL_ERROR"),
    "6.2/4": ([get(1, bytes((len(page()) + 2,)) + page(), flags=WHOLE | PADDED)], "goaway PROTOCOL_ERROR"),
    "6.3/1": ([priority(0)], "goaway PROTOCOL_ERROR"),
    "6.3/2": ([get() + frame(PRIORITY, 0, 1, b"\x80\0\0\1")], "reset FRAME_SIZE_ERROR"),
    "6.4/1": ([reset(0)], "goaway PROTOCOL_ERROR"),
    "6.4/2": ([reset(1)], "goaway PROTOCOL_ERROR"),
    "6.4/3": ([get() + frame(RST_STREAM, 0, 1, bytes(3))], "goaway FRAME_SIZE_ERROR"),
    "6.5/1": ([frame(SETTINGS, ACK, 0, b"\0")], "goaway FRAME_SIZE_ERROR"),
    "6.5/2": ([frame(SETTINGS, 0, 1, b"\0\3\0\0\0\x64")], "goaway PROTOCOL_ERROR"),
    "6.5/3": ([frame(SETTINGS, 0, 0, b"\0\3\0")], "goaway FRAME_SIZE_ERROR"),
    "6.5.2/1": ([setting((Setting.ENABLE_PUSH, 2))], "goaway PROTOCOL_ERROR"),
    "6.5.2/2": ([window(LARGEST + 1)], "goaway FLOW_CONTROL_ERROR"),
    "6.5.2/3": ([setting((Setting.MAX_FRAME_SIZE, 16_383))], "goaway PROTOCOL_ERROR"),
    "6.5.2/4": ([setting((Setting.MAX_FRAME_SIZE, 1 << 24))], "goaway PROTOCOL_ERROR"),
    "6.5.2/5": ([setting((0xFF, 1)) + PINGS], "ping"),
    "6.5.3/1": ([window(100, 1), get()], "data 1"),
    "6.5.3/2": ([setting((Setting.ENABLE_PUSH, 0))], "settings"),
    "6.7/1": ([PINGS], "ping"),
    "6.7/2": ([frame(PING, ACK, 0, b"invalid\0") + PINGS], "ping"),
    "6.7/3": ([frame(PING, 0, 1, ZEROS)], "goaway PROTOCOL_ERROR"),
    "6.7/4": ([frame(PING, 0, 0, bytes(6))], "goaway FRAME_SIZE_ERROR"),
    "6.8/1": ([frame(GOAWAY, 0, 1, ZEROS)], "goaway PROTOCOL_ERROR"),
    "6.9/1": ([update(0, 0)], "goaway PROTOCOL_ERROR"),
    "6.9/2": ([get(flags=END_HEADERS) + update(1, 0)], "reset PROTOCOL_ERROR"),
    "6.9/3": ([frame(WINDOW_UPDATE, 0, 0, b"\0\0\1")], "goaway FRAME_SIZE_ERROR"),
    "6.9.1/1": ([window(1), get()], "data 1"),
    "6.9.1/2": ([2 * update(0, LARGEST)], "goaway FLOW_CONTROL_ERROR"),
    "6.9.1/3": ([get(flags=END_HEADERS) + 2 * update(1, LARGEST)], "reset FLOW_CONTROL_ERROR"),
    "6.9.2/1": ([window(0) + get(), window(1)], "data 1"),
    "6.9.2/2": ([window(3), get(), window(2), update(1, 2)], "data 1"),
    "6.9.2/3": ([window(LARGEST + 1)], "goaway FLOW_CONTROL_ERROR"),
    "6.10/1": ([get(flags=END_STREAM) + more(end=False) + more()], "answer"),
    "6.10/2": ([get(flags=0) + more(end=False) + data(1, b"test", end=True)], "goaway PROTOCOL_ERROR"),
    "6.10/3": ([get(flags=END_STREAM) + more(stream_id=0)], "goaway PROTOCOL_ERROR"),
    "6.10/4": ([get() + more()], "goaway PROTOCOL_ERROR"),
    "6.10/5": ([get(flags=END_STREAM) + more() + more()], "goaway PROTOCOL_ERROR"),
    "6.10/6": ([get(flags=0) + data(1, b"test", end=True) + more(end=False) + more(stream_id=0)], "goaway PROTOCOL_ERROR"),
    "7/1": ([frame(GOAWAY, 0, 0, U32.pack(0) + U32.pack(0xFF)) + PINGS], "ping"),
    "7/2": ([post() + reset(1, 0xFF) + PINGS], "ping"),
    "8.1/1": ([post() + data(1, b"test") + trailers(END_HEADERS, ("x-test", "ok"))], "reset PROTOCOL_ERROR"),
    "8.1.2/1": ([get(1, page(("X-TEST", "ok")))], "reset PROTOCOL_ERROR"),
    "8.1.2.1/1": ([get(1, page((":test", "ok")))], "reset PROTOCOL_ERROR"),
    "8.1.2.1/2": ([get(1, page((":status", "200")))], "reset PROTOCOL_ERROR"),
    "8.1.2.1/3": ([post() + data(1, b"test") + trailers(END_HEADERS, (":method", "POST"))], "reset PROTOCOL_ERROR"),
    "8.1.2.1/4": ([get(1, block((("x-test", "ok"),)) + page())], "reset PROTOCOL_ERROR"),
    "8.1.2.2/1": ([get(1, page(("connection", "keep-alive")))], "reset PROTOCOL_ERROR"),
    "8.1.2.2/2": ([get(1, page(("trailers", "test"), ("te", "trailers, deflate")))], "reset PROTOCOL_ERROR"),
    "8.1.2.3/1": ([get(1, page(path=""))], "reset PROTOCOL_ERROR"),
    "8.1.2.3/2": ([get(1, page(without=":method :scheme"))], "reset PROTOCOL_ERROR"),
    "8.1.2.3/3": ([get(1, page(without=":scheme"))], "reset PROTOCOL_ERROR"),
    "8.1.2.3/4": ([get(1, page(without=":path"))], "reset PROTOCOL_ERROR"),
    "8.1.2.3/5": ([get(1, page((":method", "GET")))], "reset PROTOCOL_ERROR"),
    "8.1.2.3/6": ([get(1, page((":scheme", "http")))], "reset PROTOCOL_ERROR"),
    "8.1.2.3/7": ([get(1, page((":path", "/")))], "reset PROTOCOL_ERROR"),
    "8.1.2.6/1": ([post(("content-length", "1")) + data(1, b"test", end=True)], "reset PROTOCOL_ERROR"),
    "8.1.2.6/2": ([post(("content-length", "1")) + data(1, b"test") + data(1, b"test", end=True)], "reset PROTOCOL_ERROR"),
    "8.2/1": ([frame(PUSH_PROMISE, END_HEADERS, 1, U32.pack(3) + page())], "goaway PROTOCOL_ERROR"),
}  # fmt: skip
HPACK: Final = {
    "2.3.3/1": page() + b"\xc6",
    "2.3.3/2": page() + b"\x7f\x07\x00",
    "4.2/1": page() + b"\x21",
    "5.2/1": page() + CUT + b"\x84\x49\x50\x9f\xff",
    "5.2/2": page() + CUT + b"\x83\x49\x50\x90",
    "5.2/3": page() + CUT + b"\x87\x49\x51\xff\xff\xff\xfa\x7f",
    "6.1/1": page() + b"\x80",
    "6.3/1": b"\x3f\xe2\x1f" + page(),
}
CASES: Final = {
    **{f"generic/{number}": case for number, case in GENERIC.items()},
    **{f"http2/{number}": case for number, case in HTTP2.items()},
    **{f"hpack/{number}": ([get(1, section)], "goaway COMPRESSION_ERROR") for number, section in HPACK.items()},
}


class Server:
    """What serves calls of one connection, and knows no method."""

    def __init__(self) -> None:
        calls = Calls({}, lambda *_: lambda: None, lambda: None, max_message_bytes=1_000, max_buffered_bytes=1_000)
        self.connection = calls.connection = Connection(calls)

    def hears(self, sent: bytes) -> list[Frame]:
        self.connection.receive(sent, 0.0)
        return frames_of(self.connection.sender.take())


@pytest.mark.parametrize("number", CASES)
def test_a_case_of_h2spec_ends_as_it_accepts(number: str) -> None:
    sent, expected = CASES[number]
    server = Server()
    server.hears(PREFACE + frames.settings({Setting.INITIAL_WINDOW_SIZE: 65_535}) + frames.SETTINGS_ACK)
    heard: list[Frame] = []
    for part in sent:
        heard = server.hears(part)
    of_its_kind = [said(one) for one in heard if said(one).split()[0] == expected.split()[0]]
    assert of_its_kind == [expected]
    assert server.connection.closed is expected.startswith("goaway")
    assert all(one.flags & ACK for one in heard if one.kind in {PING, SETTINGS})


def test_generic_1_and_http2_3_5_1_the_server_begins_with_its_settings() -> None:
    first, *_ = Server().hears(PREFACE + window(65_535))
    assert (first.kind, first.flags) == (SETTINGS, 0)


def test_http2_3_5_2_another_preface_ends_the_connection() -> None:
    assert "goaway PROTOCOL_ERROR" in map(said, Server().hears(b"INVALID CONNECTION PREFACE\r\n\r\n"))
