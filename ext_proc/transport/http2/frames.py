"""Frames of RFC 9113, section 6: their numbers, and how they are written."""

from __future__ import annotations

from enum import IntEnum
from struct import Struct
from typing import Final

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HEADER_BYTES: Final = 9
LEAST_MAX_FRAME: Final = 1 << 14
MOST_MAX_FRAME: Final = (1 << 24) - 1
LARGEST_WINDOW: Final = (1 << 31) - 1
FIRST_WINDOW: Final = 65_535

FRAME_HEADER: Final = Struct(">HBBBI")
"""Length (upper 16 bits, lower 8), type, flags, stream with the reserved bit on top."""
SETTING: Final = Struct(">HI")
U32: Final = Struct(">I")
TWO_U32: Final = Struct(">II")

# Frame types are plain numbers: they are compared for every frame.
DATA: Final = 0
HEADERS: Final = 1
PRIORITY: Final = 2
RST_STREAM: Final = 3
SETTINGS: Final = 4
PUSH_PROMISE: Final = 5
PING: Final = 6
GOAWAY: Final = 7
WINDOW_UPDATE: Final = 8
CONTINUATION: Final = 9

END_STREAM: Final = 0x1
ACK: Final = 0x1
END_HEADERS: Final = 0x4
PADDED: Final = 0x8
PRIORITY_FLAG: Final = 0x20


class ErrorCode(IntEnum):
    """Section 7."""

    NO_ERROR = 0x0
    PROTOCOL_ERROR = 0x1
    INTERNAL_ERROR = 0x2
    FLOW_CONTROL_ERROR = 0x3
    SETTINGS_TIMEOUT = 0x4
    STREAM_CLOSED = 0x5
    FRAME_SIZE_ERROR = 0x6
    REFUSED_STREAM = 0x7
    CANCEL = 0x8
    COMPRESSION_ERROR = 0x9
    CONNECT_ERROR = 0xA
    ENHANCE_YOUR_CALM = 0xB
    INADEQUATE_SECURITY = 0xC
    HTTP_1_1_REQUIRED = 0xD


class Setting(IntEnum):
    """Section 6.5.2."""

    HEADER_TABLE_SIZE = 0x1
    ENABLE_PUSH = 0x2
    MAX_CONCURRENT_STREAMS = 0x3
    INITIAL_WINDOW_SIZE = 0x4
    MAX_FRAME_SIZE = 0x5
    MAX_HEADER_LIST_SIZE = 0x6


class Http2ConnectionError(Exception):
    """The client broke the protocol, or a bound, in a way that ends the connection (section 5.4.1)."""

    def __init__(self, code: ErrorCode, why: str) -> None:
        super().__init__(why)
        self.code = code


class Http2StreamError(Exception):
    """The client broke the protocol on one stream (section 5.4.2)."""

    def __init__(self, stream_id: int, code: ErrorCode, why: str) -> None:
        super().__init__(why)
        self.stream_id, self.code = stream_id, code


def frame(kind: int, flags: int, stream_id: int, payload: bytes = b"") -> bytes:
    """One frame. The payload must not be longer than the peer's maximum."""
    length = len(payload)
    return FRAME_HEADER.pack(length >> 8, length & 0xFF, kind, flags, stream_id) + payload


def settings(values: dict[Setting, int]) -> bytes:
    """A SETTINGS frame."""
    return frame(SETTINGS, 0, 0, b"".join(SETTING.pack(key, value) for key, value in values.items()))


def reset(stream_id: int, code: ErrorCode) -> bytes:
    """A RST_STREAM frame."""
    return frame(RST_STREAM, 0, stream_id, U32.pack(code))


def window_update(stream_id: int, increment: int) -> bytes:
    """A WINDOW_UPDATE frame; the increment lies in 1…2³¹-1."""
    return frame(WINDOW_UPDATE, 0, stream_id, U32.pack(increment))


def goaway(last_stream_id: int, code: ErrorCode, why: str = "") -> bytes:
    """A GOAWAY frame; `why` is for whoever debugs the client."""
    return frame(GOAWAY, 0, 0, TWO_U32.pack(last_stream_id, code) + why.encode()[:200])


SETTINGS_ACK: Final = frame(SETTINGS, ACK, 0)
