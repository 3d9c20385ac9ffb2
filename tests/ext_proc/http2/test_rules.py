"""RFC 9113 and RFC 7541, rule by rule, in raw frames. A row is (section and rule, what the client sends, the outcome)."""

from __future__ import annotations

from typing import Final

import pytest

from ext_proc.transport.http2 import frames
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
    ErrorCode,
    Setting,
    frame,
)
from ext_proc.transport.http2.limits import Limits
from tests.ext_proc.http2.client import REQUEST, Client, block, data, headers, without

E = ErrorCode


TOO_LONG: Final = b"x" * ((1 << 14) + 1)
_LITERALS: Final = (b"\x01x\x01y", b"\x85\xf2\xb2\x4a\x84\xff\x84\x9c\x48\xac\xa4")
EACH_FORM: Final = b"\xba" + b"".join(form + literal for form in (b"\x40", b"\x00", b"\x10") for literal in _LITERALS)
"""An index of the static table; literals that are indexed, not indexed and never indexed, plain and in Huffman code."""


def setting(key: int, value: int) -> bytes:
    return frame(SETTINGS, 0, 0, frames.SETTING.pack(key, value))


def update(stream_id: int, increment: int) -> bytes:
    return frame(WINDOW_UPDATE, 0, stream_id, U32.pack(increment))


BEGINNINGS: Final = {
    "3.4 a request of HTTP/1.1": [b"GET / HTTP/1.1\r\n\r\n"],
    "3.4 the preface of HTTP/1.1": [b"PRI * HTTP/1.1"],
    "3.4 a TLS handshake": [b"\x16\x03\x01\x02\x00"],
    "3.4 a first frame that is not SETTINGS": [PREFACE, headers()],
}

CONNECTION_ERRORS: Final = {
    "4.1 a frame over MAX_FRAME_SIZE": ([headers(), frame(DATA, 0, 1, TOO_LONG)], E.FRAME_SIZE_ERROR),
    "4.2 a HEADERS frame over MAX_FRAME_SIZE": ([frame(HEADERS, END_HEADERS, 1, TOO_LONG)], E.FRAME_SIZE_ERROR),
    "4.2 a frame of an unknown type over MAX_FRAME_SIZE": ([frame(0x99, 0, 0, TOO_LONG)], E.FRAME_SIZE_ERROR),
    "4.3 a block that does not decode": ([frame(HEADERS, END_HEADERS, 1, b"\xff\xff\xff\xff\xff")], E.COMPRESSION_ERROR),
    "4.3 an index that no table has": ([frame(HEADERS, END_HEADERS, 1, b"\xfe")], E.COMPRESSION_ERROR),
    "4.3 a name at an index that no table has": ([frame(HEADERS, END_HEADERS, 1, b"\x7f\x07\x00")], E.COMPRESSION_ERROR),
    "4.3 a field that is cut behind its first byte": ([frame(HEADERS, END_HEADERS, 1, b"\x40")], E.COMPRESSION_ERROR),
    "4.3 an index whose bytes do not end": ([frame(HEADERS, END_HEADERS, 1, b"\xff" + b"\x80" * 6)], E.COMPRESSION_ERROR),
    "4.3 an index over 2^32": ([frame(HEADERS, END_HEADERS, 1, b"\xff" + b"\x80" * 6 + b"\x02")], E.COMPRESSION_ERROR),
    "4.3 a Huffman code padded by more than seven bits": (
        [frame(HEADERS, END_HEADERS, 1, b"\x00\x01x\x84\x49\x50\x9f\xff")],
        E.COMPRESSION_ERROR,
    ),
    "4.3 a Huffman code padded by zeros": ([frame(HEADERS, END_HEADERS, 1, b"\x00\x01x\x83\x49\x50\x90")], E.COMPRESSION_ERROR),
    "4.3 the end of a string inside a Huffman code": (
        [frame(HEADERS, END_HEADERS, 1, b"\x00\x01x\x87\x49\x51\xff\xff\xff\xfa\x7f")],
        E.COMPRESSION_ERROR,
    ),
    "4.3 index 0": ([frame(HEADERS, END_HEADERS, 1, b"\x80")], E.COMPRESSION_ERROR),
    "4.3 a string that is cut": ([frame(HEADERS, END_HEADERS, 1, b"\x00\x0aab")], E.COMPRESSION_ERROR),
    "4.3 trailers that do not decode": (
        [headers(), frame(HEADERS, END_HEADERS | END_STREAM, 1, b"\xff\xff\xff\xff\xff")],
        E.COMPRESSION_ERROR,
    ),
    "5.1 DATA on an idle stream": ([data(1, b"x")], E.PROTOCOL_ERROR),
    "5.1 DATA on an idle even stream": ([data(2, b"x")], E.PROTOCOL_ERROR),
    "5.1 RST_STREAM on an idle stream": ([frame(RST_STREAM, 0, 1, U32.pack(8))], E.PROTOCOL_ERROR),
    "5.1 WINDOW_UPDATE on an idle stream": ([update(1, 1)], E.PROTOCOL_ERROR),
    "5.1 CONTINUATION on an idle stream": ([frame(CONTINUATION, END_HEADERS, 1, block())], E.PROTOCOL_ERROR),
    "5.1 HEADERS on a stream that was closed by both": ([headers(1), frame(RST_STREAM, 0, 1, U32.pack(8)), headers(1)], E.STREAM_CLOSED),
    "5.1.1 HEADERS on an even stream": ([headers(2)], E.PROTOCOL_ERROR),
    "5.1.1 HEADERS on stream 0": ([headers(0)], E.PROTOCOL_ERROR),
    "5.1.1 a stream that was skipped": ([headers(5), headers(3)], E.PROTOCOL_ERROR),
    "5.1.1 the first stream after the third": ([headers(5), headers(1)], E.PROTOCOL_ERROR),
    "5.1 HEADERS on a stream that was answered": ([headers(1), frame(RST_STREAM, 0, 1, U32.pack(8)), headers(5), headers(1)], E.STREAM_CLOSED),
    "5.3 HEADERS of a stream that depends on itself": (
        [frame(HEADERS, PRIORITY_FLAG | END_HEADERS, 1, b"\x80\0\0\x01\x10" + block())],
        E.PROTOCOL_ERROR,
    ),
    "5.3 PRIORITY by which an idle stream depends on itself": ([frame(PRIORITY, 0, 9, b"\0\0\0\x09\x01")], E.PROTOCOL_ERROR),
    "6.1 DATA on stream 0": ([data(0, b"x")], E.PROTOCOL_ERROR),
    "6.1 padding as long as the payload": ([headers(), frame(DATA, PADDED, 1, b"\x05xxxx")], E.PROTOCOL_ERROR),
    "6.1 padding longer than the payload": ([headers(), frame(DATA, PADDED, 1, b"\xffx")], E.PROTOCOL_ERROR),
    "6.1 padding without its length": ([headers(), frame(DATA, PADDED, 1, b"")], E.FRAME_SIZE_ERROR),
    "6.1 padded DATA on an idle stream": ([frame(DATA, PADDED, 1, b"\x01xx")], E.PROTOCOL_ERROR),
    "6.2 padding of HEADERS longer than its payload": ([frame(HEADERS, PADDED | END_HEADERS, 1, b"\x09" + b"x")], E.PROTOCOL_ERROR),
    "6.2 HEADERS with a priority of four bytes": ([frame(HEADERS, PRIORITY_FLAG | END_HEADERS, 1, b"\0\0\0\0")], E.FRAME_SIZE_ERROR),
    "6.2 a frame between HEADERS and CONTINUATION": ([headers(flags=0), frame(PING, 0, 0, b"12345678")], E.PROTOCOL_ERROR),
    "6.2 DATA between HEADERS and CONTINUATION": ([headers(flags=0), data(1, b"x")], E.PROTOCOL_ERROR),
    "6.2 HEADERS between HEADERS and CONTINUATION": ([headers(flags=0), headers(3)], E.PROTOCOL_ERROR),
    "6.2 an unknown frame inside a header block": ([headers(flags=0), frame(0x99, 0, 1, b"")], E.PROTOCOL_ERROR),
    "6.3 PRIORITY of four bytes on an idle stream, which cannot be reset": ([frame(PRIORITY, 0, 1, b"\0\0\0\0")], E.FRAME_SIZE_ERROR),
    "6.3 PRIORITY on stream 0": ([frame(PRIORITY, 0, 0, b"\0\0\0\0\0")], E.PROTOCOL_ERROR),
    "6.4 RST_STREAM on stream 0": ([frame(RST_STREAM, 0, 0, U32.pack(8))], E.PROTOCOL_ERROR),
    "6.4 RST_STREAM of three bytes": ([headers(), frame(RST_STREAM, 0, 1, b"abc")], E.FRAME_SIZE_ERROR),
    "6.4 RST_STREAM of five bytes": ([headers(), frame(RST_STREAM, 0, 1, b"abcde")], E.FRAME_SIZE_ERROR),
    "6.5 SETTINGS on a stream": ([frame(SETTINGS, 0, 1, b"")], E.PROTOCOL_ERROR),
    "6.5 SETTINGS of seven bytes": ([frame(SETTINGS, 0, 0, b"1234567")], E.FRAME_SIZE_ERROR),
    "6.5 an acknowledgement with a payload": ([frame(SETTINGS, ACK, 0, b"123456")], E.FRAME_SIZE_ERROR),
    "6.5.2 ENABLE_PUSH 2": ([setting(Setting.ENABLE_PUSH, 2)], E.PROTOCOL_ERROR),
    "6.5.2 INITIAL_WINDOW_SIZE over 2^31-1": ([setting(Setting.INITIAL_WINDOW_SIZE, 1 << 31)], E.FLOW_CONTROL_ERROR),
    "6.5.2 MAX_FRAME_SIZE below 16384": ([setting(Setting.MAX_FRAME_SIZE, 16_383)], E.PROTOCOL_ERROR),
    "6.5.2 MAX_FRAME_SIZE over 2^24-1": ([setting(Setting.MAX_FRAME_SIZE, 1 << 24)], E.PROTOCOL_ERROR),
    "6.6 PUSH_PROMISE of a client": ([headers(), frame(PUSH_PROMISE, END_HEADERS, 1, U32.pack(2))], E.PROTOCOL_ERROR),
    "6.7 PING on a stream": ([frame(PING, 0, 1, b"12345678")], E.PROTOCOL_ERROR),
    "6.7 PING of seven bytes": ([frame(PING, 0, 0, b"1234567")], E.FRAME_SIZE_ERROR),
    "6.7 PING of nine bytes": ([frame(PING, 0, 0, b"123456789")], E.FRAME_SIZE_ERROR),
    "6.8 GOAWAY on a stream": ([frame(GOAWAY, 0, 1, b"\0" * 8)], E.PROTOCOL_ERROR),
    "6.8 GOAWAY of seven bytes": ([frame(GOAWAY, 0, 0, b"\0" * 7)], E.FRAME_SIZE_ERROR),
    "6.9 WINDOW_UPDATE of three bytes": ([frame(WINDOW_UPDATE, 0, 0, b"abc")], E.FRAME_SIZE_ERROR),
    "6.9 WINDOW_UPDATE of the connection by 0": ([update(0, 0)], E.PROTOCOL_ERROR),
    "6.9.1 the connection's window over 2^31-1": ([update(0, (1 << 31) - 1)], E.FLOW_CONTROL_ERROR),
    "6.9.2 a changed first window takes a stream's over 2^31-1": (
        [headers(), update(1, (1 << 31) - 1 - 65_535), setting(Setting.INITIAL_WINDOW_SIZE, 65_536)],
        E.FLOW_CONTROL_ERROR,
    ),
    "6.10 CONTINUATION on another stream": ([headers(flags=0), frame(CONTINUATION, END_HEADERS, 3, b"")], E.PROTOCOL_ERROR),
    "6.10 CONTINUATION on stream 0": ([headers(flags=0), frame(CONTINUATION, END_HEADERS, 0, b"")], E.PROTOCOL_ERROR),
    "6.10 CONTINUATION after END_HEADERS": ([headers(), frame(CONTINUATION, END_HEADERS, 1, block())], E.PROTOCOL_ERROR),
    "4.3 a table larger than allowed": ([frame(HEADERS, END_HEADERS, 1, b"\x3f\xe1\xff\x03" + block())], E.COMPRESSION_ERROR),
    "4.3 a change of the table's size behind a field": ([frame(HEADERS, END_HEADERS, 1, b"\x83\x20")], E.COMPRESSION_ERROR),
    "4.3 a Huffman code of all ones": ([frame(HEADERS, END_HEADERS, 1, b"\x00\x84\xff\xff\xff\xff\x00")], E.COMPRESSION_ERROR),
    "5.1 CONTINUATION on a half-closed stream": ([headers(flags=5), frame(CONTINUATION, END_HEADERS, 1, block())], E.PROTOCOL_ERROR),
    "5.1 CONTINUATION on a closed stream": (
        [headers(), frame(RST_STREAM, 0, 1, U32.pack(8)), frame(CONTINUATION, END_HEADERS, 1, block())],
        E.PROTOCOL_ERROR,
    ),
    "5.1 PUSH_PROMISE on an idle stream": ([frame(PUSH_PROMISE, END_HEADERS, 1, U32.pack(2))], E.PROTOCOL_ERROR),
    "6.2 padding of HEADERS without its length": ([frame(HEADERS, PADDED | END_HEADERS, 1, b"")], E.FRAME_SIZE_ERROR),
    "6.4 RST_STREAM on an even stream": ([headers(), frame(RST_STREAM, 0, 2, U32.pack(8))], E.PROTOCOL_ERROR),
    "6.5 an acknowledgement on a stream": ([frame(SETTINGS, ACK, 1, b"")], E.PROTOCOL_ERROR),
    "6.5 SETTINGS of five bytes": ([frame(SETTINGS, 0, 0, b"12345")], E.FRAME_SIZE_ERROR),
    "6.6 PUSH_PROMISE on stream 0": ([frame(PUSH_PROMISE, END_HEADERS, 0, U32.pack(2))], E.PROTOCOL_ERROR),
    "6.7 an acknowledged PING of seven bytes": ([frame(PING, ACK, 0, b"1234567")], E.FRAME_SIZE_ERROR),
    "6.9 WINDOW_UPDATE of five bytes": ([frame(WINDOW_UPDATE, 0, 0, b"abcde")], E.FRAME_SIZE_ERROR),
    "6.9 WINDOW_UPDATE of three bytes on a stream": ([headers(), frame(WINDOW_UPDATE, 0, 1, b"abc")], E.FRAME_SIZE_ERROR),
    "6.9 WINDOW_UPDATE on an even stream": ([headers(), update(2, 1)], E.PROTOCOL_ERROR),
    "6.9 the reserved bit is no part of an increment": ([update(0, 1 << 31)], E.PROTOCOL_ERROR),
    "6.10 CONTINUATION after one with END_HEADERS": (
        [frame(HEADERS, 0, 1, block()), *[frame(CONTINUATION, END_HEADERS, 1, b"")] * 2],
        E.PROTOCOL_ERROR,
    ),
    "6.10 CONTINUATION behind DATA": ([headers(), data(1, b"x"), frame(CONTINUATION, END_HEADERS, 1, block())], E.PROTOCOL_ERROR),
}  # fmt: skip

STREAM_ERRORS: Final = {
    "5.3 PRIORITY by which a stream depends on itself": ([headers(), frame(PRIORITY, 0, 1, b"\x80\0\0\x01\x01")], E.PROTOCOL_ERROR),
    "5.1 DATA on a half-closed stream": ([headers(flags=5), data(1, b"x")], E.STREAM_CLOSED),
    "5.1 HEADERS on a half-closed stream": ([headers(flags=5), headers(1, flags=5)], E.STREAM_CLOSED),
    "5.1 DATA on a stream that the client reset": ([headers(), frame(RST_STREAM, 0, 1, U32.pack(8)), data(1, b"x")], E.STREAM_CLOSED),
    "5.1 DATA on a half-closed stream, padded": ([headers(flags=5), frame(DATA, PADDED, 1, b"\x01xx")], E.STREAM_CLOSED),
    "6.3 PRIORITY of six bytes": ([headers(), frame(PRIORITY, 0, 1, b"\0" * 6)], E.FRAME_SIZE_ERROR),
    "6.9 WINDOW_UPDATE of a half-closed stream by 0": ([headers(flags=5), update(1, 0)], E.PROTOCOL_ERROR),
    "8.1.1 two lengths of one content": (
        [headers(1, (*REQUEST, ("content-length", "3"), ("content-length", "4")))],
        E.PROTOCOL_ERROR,
    ),
    "8.1.1 a length below zero": ([headers(1, (*REQUEST, ("content-length", "-1")))], E.PROTOCOL_ERROR),
    "8.2.1 a name with a colon in it": ([headers(1, (*REQUEST, ("x:y", "1")))], E.PROTOCOL_ERROR),
    "8.2.1 a name with a byte over 0x7f": ([headers(1, (*REQUEST, ("x\u00e4", "1")))], E.PROTOCOL_ERROR),
    "8.2.1 a name with a control character": ([headers(1, (*REQUEST, ("x\x01", "1")))], E.PROTOCOL_ERROR),
    "8.2.1 a value that ends with a tab": ([headers(1, (*REQUEST, ("x", "a\t")))], E.PROTOCOL_ERROR),
    "8.2.1 a bad name in trailers": ([headers(), headers(1, (("X", "1"),), flags=5)], E.PROTOCOL_ERROR),
    "8.2.2 proxy-connection": ([headers(1, (*REQUEST, ("proxy-connection", "1")))], E.PROTOCOL_ERROR),
    "8.2.2 connection in trailers": ([headers(), headers(1, (("connection", "close"),), flags=5)], E.PROTOCOL_ERROR),
    "8.3.1 an empty :method": ([headers(1, ((":method", ""), *without(":method")))], E.PROTOCOL_ERROR),
    "8.3.1 an empty :scheme": ([headers(1, ((":scheme", ""), *without(":scheme")))], E.PROTOCOL_ERROR),
    "8.5 CONNECT, which is not offered": ([headers(1, ((":method", "CONNECT"), (":authority", "x")))], E.PROTOCOL_ERROR),
    "6.3 PRIORITY of four bytes": ([headers(), frame(PRIORITY, 0, 1, b"\0\0\0\0")], E.FRAME_SIZE_ERROR),
    "6.9 WINDOW_UPDATE of a stream by 0": ([headers(), update(1, 0)], E.PROTOCOL_ERROR),
    "6.9.1 a stream's window over 2^31-1": ([headers(), update(1, (1 << 31) - 1)], E.FLOW_CONTROL_ERROR),
    "8.1 a second header section without END_STREAM": ([headers(), headers(1, (("a", "b"),))], E.PROTOCOL_ERROR),
    "8.1 a pseudo-header in trailers": ([headers(), headers(1, ((":path", "/"),), flags=5)], E.PROTOCOL_ERROR),
    "8.1.1 more data than content-length": ([headers(1, (*REQUEST, ("content-length", "3"))), data(1, b"xxxx")], E.PROTOCOL_ERROR),
    "8.1.1 less data than content-length": ([headers(1, (*REQUEST, ("content-length", "3"))), data(1, b"xx", end=True)], E.PROTOCOL_ERROR),
    "8.1.1 no data with content-length": ([headers(1, (*REQUEST, ("content-length", "3")), flags=5)], E.PROTOCOL_ERROR),
    "8.1.1 trailers before content-length is reached": (
        [headers(1, (*REQUEST, ("content-length", "3"))), data(1, b"x"), headers(1, (("a", "b"),), flags=5)],
        E.PROTOCOL_ERROR,
    ),
    "8.1.1 padding does not count for content-length": (
        [headers(1, (*REQUEST, ("content-length", "3"))), frame(DATA, PADDED | END_STREAM, 1, b"\x01xx\0")],
        E.PROTOCOL_ERROR,
    ),
    "8.1.1 content-length that is no number": ([headers(1, (*REQUEST, ("content-length", "3x")))], E.PROTOCOL_ERROR),
    "8.2.1 a name in upper case": ([headers(1, (*REQUEST, ("X-Upper", "1")))], E.PROTOCOL_ERROR),
    "8.2.1 a name with a space": ([headers(1, (*REQUEST, ("x y", "1")))], E.PROTOCOL_ERROR),
    "8.2.1 an empty name": ([headers(1, (*REQUEST, ("", "1")))], E.PROTOCOL_ERROR),
    "8.2.1 a line break in a value": ([headers(1, (*REQUEST, ("x", "a\nb")))], E.PROTOCOL_ERROR),
    "8.2.1 a carriage return in a value": ([headers(1, (*REQUEST, ("x", "a\rb")))], E.PROTOCOL_ERROR),
    "8.2.1 a zero byte in a value": ([headers(1, (*REQUEST, ("x", "a\0b")))], E.PROTOCOL_ERROR),
    "8.2.1 a value that begins with a space": ([headers(1, (*REQUEST, ("x", " a")))], E.PROTOCOL_ERROR),
    "8.2.2 connection": ([headers(1, (*REQUEST, ("connection", "close")))], E.PROTOCOL_ERROR),
    "8.2.2 transfer-encoding": ([headers(1, (*REQUEST, ("transfer-encoding", "chunked")))], E.PROTOCOL_ERROR),
    "8.2.2 upgrade": ([headers(1, (*REQUEST, ("upgrade", "x")))], E.PROTOCOL_ERROR),
    "8.2.2 keep-alive": ([headers(1, (*REQUEST, ("keep-alive", "1")))], E.PROTOCOL_ERROR),
    "8.2.2 te with more than trailers": ([headers(1, (*without("te"), ("te", "trailers, deflate")))], E.PROTOCOL_ERROR),
    "8.2.2 te other than trailers": ([headers(1, (*without("te"), ("te", "gzip")))], E.PROTOCOL_ERROR),
    "8.3 a pseudo-header behind a field": ([headers(1, (*without(":path"), (":path", "/")))], E.PROTOCOL_ERROR),
    "8.3 a pseudo-header of responses": ([headers(1, ((":status", "200"), *REQUEST))], E.PROTOCOL_ERROR),
    "8.3 an unknown pseudo-header": ([headers(1, ((":other", "1"), *REQUEST))], E.PROTOCOL_ERROR),
    "8.3 a :path twice": ([headers(1, ((":path", "/"), *REQUEST))], E.PROTOCOL_ERROR),
    "8.3 a :method twice": ([headers(1, (REQUEST[0], *REQUEST))], E.PROTOCOL_ERROR),
    "8.3 a :scheme twice": ([headers(1, (REQUEST[1], *REQUEST))], E.PROTOCOL_ERROR),
    "8.3 a pseudo-header twice, though a field lies between": ([headers(1, (*REQUEST, REQUEST[0]))], E.PROTOCOL_ERROR),
    "8.3.1 no :method": ([headers(1, without(":method"))], E.PROTOCOL_ERROR),
    "8.3.1 no :scheme": ([headers(1, without(":scheme"))], E.PROTOCOL_ERROR),
    "8.3.1 no :path": ([headers(1, without(":path"))], E.PROTOCOL_ERROR),
    "8.3.1 an empty :path": ([headers(1, ((":path", ""), *without(":path")))], E.PROTOCOL_ERROR),
    "8.2.1 a line break in :authority": ([headers(1, ((":authority", "a\r\nb"), *without(":authority")))], E.PROTOCOL_ERROR),
    "8.2.1 a line break in :path": ([headers(1, ((":path", "/a\r\nb"), *without(":path")))], E.PROTOCOL_ERROR),
    "8.2.1 a :path that ends with a space": ([headers(1, ((":path", "/a "), *without(":path")))], E.PROTOCOL_ERROR),
    "8.2.1 a :scheme that begins with a space": ([headers(1, ((":scheme", " http"), *without(":scheme")))], E.PROTOCOL_ERROR),
    "8.3.1 two hosts": ([headers(1, (*without(":authority"), ("host", "x"), ("host", "x")))], E.PROTOCOL_ERROR),
    "8.3.1 a :method with a space": ([headers(1, ((":method", "PO ST"), *without(":method")))], E.PROTOCOL_ERROR),
    "8.3.1 a :path with a space": ([headers(1, ((":path", "/a b"), *without(":path")))], E.PROTOCOL_ERROR),
    "8.3.1 an :authority with a space": ([headers(1, ((":authority", "a b"), *without(":authority")))], E.PROTOCOL_ERROR),
    "8.3.1 a :path of http that does not begin with a slash": ([headers(1, ((":path", "service/Method"), *without(":path")))], E.PROTOCOL_ERROR),
    "8.3.1 the :path * of another method than OPTIONS": ([headers(1, ((":path", "*"), *without(":path")))], E.PROTOCOL_ERROR),
}  # fmt: skip

IGNORED: Final = {
    "4.1 a frame of an unknown type": [frame(0x99, 0xFF, 7, b"anything")],
    "4.1 unknown flags of PING": [frame(PING, 0xFE, 0, b"12345678")],
    "4.1 the reserved bit of the stream": [frame(PING, 0, 0, b"12345678")[:5] + b"\x80\0\0\0" + b"12345678"],
    "5.1 PRIORITY on an idle stream": [frame(PRIORITY, 0, 9, b"\0\0\0\0\0")],
    "5.1 PRIORITY on a closed stream": [headers(), frame(RST_STREAM, 0, 1, U32.pack(8)), frame(PRIORITY, 0, 1, b"\0" * 5)],
    "5.1 WINDOW_UPDATE on a closed stream": [headers(), frame(RST_STREAM, 0, 1, U32.pack(8)), update(1, 10)],
    "5.1 RST_STREAM on a closed stream": [headers(), frame(RST_STREAM, 0, 1, U32.pack(8)), frame(RST_STREAM, 0, 1, U32.pack(8))],
    "5.1 PRIORITY on a half-closed stream": [headers(flags=5), frame(PRIORITY, 0, 1, b"\0" * 5)],
    "5.1 WINDOW_UPDATE on a half-closed stream": [headers(flags=5), update(1, 10)],
    "5.1 WINDOW_UPDATE by 0 on a closed stream": [headers(), frame(RST_STREAM, 0, 1, U32.pack(8)), update(1, 0)],
    "5.3 a stream that depends on one that is not open": [frame(PRIORITY, 0, 9, b"\0\0\0\x03\x01")],
    "5.3 a stream that depends on all others": [frame(PRIORITY, 0, 9, b"\x80\0\0\0\xff")],
    "5.5 SETTINGS with flags that nobody knows": [frame(SETTINGS, 0xFE, 0, b"")],
    "4.2 DATA of MAX_FRAME_SIZE": [headers(), data(1, TOO_LONG[1:])],
    "4.3 two changes of the table's size ahead of the fields": [frame(HEADERS, END_HEADERS, 1, b"\x3f\x61\x3f\xe1\x1f" + block())],
    "4.3 a field in each form that a block may have": [frame(HEADERS, END_HEADERS, 1, block() + EACH_FORM)],
    "6.2 HEADERS with padding": [frame(HEADERS, PADDED | END_HEADERS, 1, b"\x08" + block() + b"\0" * 8)],
    "6.2 HEADERS with a priority": [frame(HEADERS, PRIORITY_FLAG | END_HEADERS, 1, b"\0\0\0\0\xff" + block())],
    "6.3 PRIORITY ahead of HEADERS on a lower stream": [frame(PRIORITY, 0, 3, b"\0\0\0\0\xff"), headers()],
    "6.10 a block in three frames": [
        frame(HEADERS, 0, 1, block()[:5]),
        frame(CONTINUATION, 0, 1, block()[5:10]),
        frame(CONTINUATION, END_HEADERS, 1, block()[10:]),
    ],
    "6.10 a block with an empty CONTINUATION": [headers(flags=0), frame(CONTINUATION, END_HEADERS, 1, b"")],
    "8.1 trailers": [headers(), data(1, b"x"), headers(1, (("x", "y"),), flags=5)],
    "6.1 padding of no bytes": [headers(), frame(DATA, PADDED, 1, b"\0xyz")],
    "6.1 padding that is not zero": [headers(), frame(DATA, PADDED, 1, b"\x02xyz\xff\xff")],
    "6.4 RST_STREAM with a code that nobody knows": [headers(), frame(RST_STREAM, 0, 1, U32.pack(0xFFFF))],
    "6.5.2 the largest values that are allowed": [
        setting(Setting.INITIAL_WINDOW_SIZE, (1 << 31) - 1),
        setting(Setting.MAX_FRAME_SIZE, (1 << 24) - 1),
        setting(Setting.HEADER_TABLE_SIZE, (1 << 32) - 1),
    ],
    "6.5.2 ENABLE_PUSH 0 and 1": [setting(Setting.ENABLE_PUSH, 0), setting(Setting.ENABLE_PUSH, 1)],
    "6.8 GOAWAY with a reason, and a code that nobody knows": [frame(GOAWAY, 0, 0, b"\0" * 4 + b"\xff" * 4 + b"why")],
    "6.9.1 a window of 2^31-1": [update(0, (1 << 31) - 1 - 65_535)],
    "6.5.2 an unknown setting": [setting(0x99, 1)],
    "6.7 an acknowledged PING": [frame(PING, ACK, 0, b"12345678")],
    "6.8 GOAWAY of the client": [frame(GOAWAY, 0, 0, b"\0" * 8)],
    "8.1.1 one length twice": [headers(1, (*REQUEST, ("content-length", "1"), ("content-length", "1"))), data(1, b"x", end=True)],
    "8.3.1 a host that is not :authority": [headers(1, (*REQUEST, ("host", "other")))],
    "8.3.1 OPTIONS of a whole server": [headers(1, ((":method", "OPTIONS"), (":path", "*"), *without(":path")[1:]))],
    "8.3.1 a :path of a scheme that is not of the web": [headers(1, ((":scheme", "urn"), (":path", "a:b"), *REQUEST[:1], *REQUEST[3:]))],
}  # fmt: skip


@pytest.mark.parametrize("rule", CONNECTION_ERRORS)
def test_a_connection_error_ends_the_connection_with_its_code(rule: str) -> None:
    sent, code = CONNECTION_ERRORS[rule]
    client = Client()
    client.say(*sent)
    assert client.goaway() is code


@pytest.mark.parametrize("rule", CONNECTION_ERRORS)
def test_a_connection_error_is_the_same_byte_by_byte(rule: str) -> None:
    sent, code = CONNECTION_ERRORS[rule]
    client = Client()
    for byte in b"".join(sent)[:5000]:
        client.say(bytes((byte,)))
    assert client.goaway() is code


@pytest.mark.parametrize("rule", STREAM_ERRORS)
def test_a_stream_error_resets_the_stream_and_others_go_on(rule: str) -> None:
    sent, code = STREAM_ERRORS[rule]
    client = Client()
    client.say(*sent)
    assert client.resets() == {1: code}
    assert 1 not in client.connection.streams
    client.say(headers(3), data(3, b"fine", end=True))
    assert client.seen.names(3) == ["opened", "data", "ended"]


@pytest.mark.parametrize("rule", STREAM_ERRORS)
def test_a_stream_that_the_handler_knew_is_told_to_be_gone(rule: str) -> None:
    client = Client()
    client.say(*STREAM_ERRORS[rule][0])
    names = client.seen.names()
    assert names.count("opened") == names.count("gone") <= 1


@pytest.mark.parametrize("rule", IGNORED)
def test_what_is_to_be_ignored_changes_nothing(rule: str) -> None:
    client = Client()
    client.say(*IGNORED[rule])
    assert client.resets() == {}
    client.say(headers(11), data(11, b"fine", end=True))
    assert client.seen.names(11) == ["opened", "data", "ended"]


# 3.4, the preface


def test_settings_come_first_and_their_acknowledgement_follows_the_clients() -> None:
    client = Client(greet=False)
    first, window = client.answers()
    assert (first.kind, first.flags, window.kind, window.stream_id) == (SETTINGS, 0, WINDOW_UPDATE, 0)
    client.say(PREFACE, frames.settings({}))
    assert [(f.kind, f.flags) for f in client.answers()] == [(SETTINGS, ACK)]


@pytest.mark.parametrize("cut", range(1, len(PREFACE)))
def test_the_preface_may_come_in_parts(cut: int) -> None:
    client = Client(greet=False)
    client.say(PREFACE[:cut])
    client.say(PREFACE[cut:], frames.settings({}), headers())
    assert client.seen.names() == ["opened"]


@pytest.mark.parametrize("rule", BEGINNINGS)
def test_another_beginning_ends_the_connection(rule: str) -> None:
    client = Client(greet=False)
    for sent in BEGINNINGS[rule]:
        client.say(sent)
    assert client.goaway() is E.PROTOCOL_ERROR


@pytest.mark.parametrize("right", range(len(PREFACE)))
def test_a_preface_is_refused_at_its_first_wrong_byte(right: int) -> None:
    client = Client(greet=False)
    client.say(PREFACE[:right] + b"X")
    assert client.goaway() is E.PROTOCOL_ERROR


# 4.3 and RFC 7541


def test_a_block_in_many_continuations_is_one() -> None:
    client, whole = Client(), block()
    client.say(frame(HEADERS, END_STREAM, 1, whole[:3]), frame(CONTINUATION, 0, 1, whole[3:9]))
    client.say(frame(CONTINUATION, END_HEADERS, 1, whole[9:]))
    assert client.seen.names() == ["opened", "ended"]
    assert client.stream().request.path == b"/service/Method"


def test_headers_with_padding_and_priority_are_read() -> None:
    client = Client()
    payload = b"\x03" + b"\x80\0\0\0\x10" + block() + b"\0\0\0"
    client.say(frame(HEADERS, PADDED | PRIORITY_FLAG | END_HEADERS, 1, payload))
    assert client.stream().request.fields[b"te"] == b"trailers"


def test_indexed_fields_follow_the_dynamic_table_across_streams() -> None:
    from hpack import Encoder

    encoder, client = Encoder(), Client()
    for number in range(50):
        fields = [*REQUEST, ("x-number", str(number // 10))]
        client.say(frame(HEADERS, END_HEADERS, 2 * number + 1, encoder.encode(fields)))
        assert client.stream(2 * number + 1).request.fields[b"x-number"] == str(number // 10).encode()


def test_a_cached_block_is_read_anew_once_the_table_changed() -> None:
    """The same byte means another field when an insertion moved the table."""

    def insert(value: bytes) -> bytes:
        return b"\x40\x01x\x01" + value  # a literal with incremental indexing

    client = Client()
    base = block(tuple(pair for pair in REQUEST if pair[0].startswith(":")))
    client.say(frame(HEADERS, END_HEADERS, 1, base + insert(b"a")))
    static = b"\x83\x86\x84"  # :method POST, :scheme http, :path / of the static table
    client.say(frame(HEADERS, END_HEADERS, 3, static + b"\xbe"))
    client.say(frame(HEADERS, END_HEADERS, 5, static + b"\xbe"))
    client.say(frame(HEADERS, END_HEADERS, 7, base + insert(b"b")))
    client.say(frame(HEADERS, END_HEADERS, 9, static + b"\xbe"))
    assert [client.stream(n).request.fields[b"x"] for n in (3, 5, 9)] == [b"a", b"a", b"b"]


def test_the_headers_of_a_refused_stream_still_move_the_table() -> None:
    from hpack import Encoder

    encoder, client = Encoder(), Client(Limits(max_concurrent_streams=1))
    client.say(headers(1), frame(HEADERS, END_HEADERS, 3, encoder.encode([*REQUEST, ("x", "1")])))
    assert client.resets() == {3: E.REFUSED_STREAM}
    client.say(
        frame(RST_STREAM, 0, 1, U32.pack(8)), frame(HEADERS, END_HEADERS, 5, encoder.encode([*REQUEST, ("x", "1")]))
    )
    assert client.stream(5).request.fields[b"x"] == b"1"


def test_the_first_block_sent_gives_up_the_dynamic_table() -> None:
    client = Client()
    client.say(setting(Setting.HEADER_TABLE_SIZE, 0), headers(1), headers(3))
    client.answers()
    for stream_id in (1, 3):
        client.connection.send_headers(client.stream(stream_id), b"\x88")
    assert [f.payload for f in client.answers()] == [b"\x20\x88", b"\x88"]


# 5.1, 6.1, 6.9: bodies and windows


def test_a_body_is_passed_on_before_its_frame_is_whole() -> None:
    client = Client()
    whole = data(1, b"abcdef", end=True)
    client.say(headers(), whole[:12])
    assert client.seen.body() == b"abc"
    client.say(whole[12:])
    assert (client.seen.body(), client.seen.names()[-1]) == (b"abcdef", "ended")


def test_padding_is_no_content_and_counts_for_the_windows() -> None:
    limits = Limits(stream_window_bytes=100, connection_window_bytes=200_000)
    client = Client(limits)
    client.say(headers(), frame(DATA, PADDED, 1, b"\x28" + b"x" * 10 + b"\0" * 40))
    assert client.seen.body() == b"x" * 10
    updates = {f.stream_id: U32.unpack(f.payload)[0] for f in client.answers() if f.kind == WINDOW_UPDATE}
    assert updates == {1: 51}


def test_padding_is_no_part_of_the_content_length() -> None:
    client = Client()
    client.say(headers(1, (*REQUEST, ("content-length", "4"))), frame(DATA, PADDED | END_STREAM, 1, b"\x03abcd\0\0\0"))
    assert (client.seen.body(), client.seen.names()[-1]) == (b"abcd", "ended")


def test_both_windows_are_filled_up_at_half() -> None:
    client = Client(Limits(stream_window_bytes=70_000, connection_window_bytes=100_000, max_frame_bytes=1 << 17))
    client.say(headers(), data(1, b"x" * 34_000))
    assert client.answers() == []
    client.say(data(1, b"x" * 20_000))
    updates = {f.stream_id: U32.unpack(f.payload)[0] for f in client.answers()}
    assert updates == {0: 54_000, 1: 54_000}


def test_data_past_the_streams_window_is_an_error_of_the_stream() -> None:
    client = Client(Limits(stream_window_bytes=10))
    client.say(headers(), data(1, b"x" * 11))
    assert client.resets() == {1: E.FLOW_CONTROL_ERROR}


def test_data_past_the_connections_window_is_an_error_of_the_connection() -> None:
    client = Client(Limits(connection_window_bytes=70_000, max_frame_bytes=1 << 17))
    client.say(headers(), data(1, b"x" * 70_001))
    assert client.goaway() is E.FLOW_CONTROL_ERROR


def test_data_of_a_stream_that_we_reset_is_dropped_and_counts_for_the_connection() -> None:
    client = Client(Limits(connection_window_bytes=70_000, max_frame_bytes=1 << 17))
    client.say(headers())
    client.connection.reset(client.stream(), E.CANCEL)
    client.say(data(1, b"x" * 36_000), update(1, 5), headers(1, (("a", "b"),), flags=5))
    updates = [f.stream_id for f in client.answers() if f.kind == WINDOW_UPDATE]
    assert (client.seen.body(), updates) == (b"", [0])


def test_an_answer_waits_for_the_streams_window_and_goes_on_with_an_update() -> None:
    client = Client()
    client.say(setting(Setting.INITIAL_WINDOW_SIZE, 4), headers(flags=5))
    client.answers()
    client.connection.send_data(client.stream(), b"abcdef")
    client.connection.send_headers(client.stream(), b"\x88", end=True)
    assert [f.payload for f in client.answers()] == [b"abcd"]
    client.say(update(1, 100))
    last = client.answers()
    assert [(f.kind, bool(f.flags & END_STREAM)) for f in last] == [(DATA, False), (HEADERS, True)]
    assert (last[0].payload, client.connection.streams) == (b"ef", {})


def test_what_a_larger_first_window_lets_out_goes_behind_the_acknowledgement() -> None:
    client = Client()
    client.say(setting(Setting.INITIAL_WINDOW_SIZE, 1), headers())
    client.answers()
    client.connection.send_data(client.stream(), b"abc")
    client.answers()
    client.say(setting(Setting.INITIAL_WINDOW_SIZE, 100))
    assert [(f.kind, f.flags, f.payload) for f in client.answers()] == [(SETTINGS, ACK, b""), (DATA, 0, b"bc")]


def test_an_answer_waits_for_the_connections_window() -> None:
    client = Client()
    client.say(setting(Setting.INITIAL_WINDOW_SIZE, 1 << 20), headers(1), headers(3))
    client.answers()
    client.connection.send_data(client.stream(1), b"x" * 65_535)
    client.connection.send_data(client.stream(3), b"late")
    assert sum(len(f.payload) for f in client.answers()) == 65_535
    client.say(update(0, 4))
    assert [(f.stream_id, f.payload) for f in client.answers()] == [(3, b"late")]


def test_a_smaller_first_window_may_make_a_streams_negative() -> None:
    client = Client()
    client.say(headers())
    client.connection.send_data(client.stream(), b"x" * 60_000)
    client.say(setting(Setting.INITIAL_WINDOW_SIZE, 10_000))
    client.answers()
    client.connection.send_data(client.stream(), b"more")
    client.say(update(1, 50_000))
    assert [f.payload for f in client.answers()] == []
    client.say(update(1, 4))
    assert [f.payload for f in client.answers()] == [b"more"]


def test_frames_are_no_larger_than_the_client_allows() -> None:
    client = Client()
    client.say(headers())
    client.connection.send_data(client.stream(), b"x" * 40_000)
    assert [len(f.payload) for f in client.answers()] == [16_384, 16_384, 7_232]
    client.say(setting(Setting.MAX_FRAME_SIZE, 20_000))
    client.answers()
    client.connection.send_data(client.stream(), b"x" * 20_001)
    assert [len(f.payload) for f in client.answers()] == [20_000, 1]


def test_an_empty_answer_needs_no_window() -> None:
    client = Client()
    client.say(setting(Setting.INITIAL_WINDOW_SIZE, 0), headers())
    client.answers()
    client.connection.send_data(client.stream(), b"")
    assert [(f.kind, f.payload) for f in client.answers()] == [(DATA, b"")]


def test_an_answer_before_the_end_of_the_request_is_followed_by_no_error() -> None:
    client = Client()
    client.say(headers(), data(1, b"x"))
    client.connection.send_headers(client.stream(), b"\x88", end=True)
    assert client.resets() == {1: E.NO_ERROR}
    client.say(data(1, b"still on the line", end=True))
    assert client.resets() == {}


# 6.7, 6.8


def test_a_ping_is_answered_with_the_same_payload() -> None:
    client = Client()
    client.say(frame(PING, 0, 0, b"12345678"))
    assert [(f.kind, f.flags, f.payload) for f in client.answers()] == [(PING, ACK, b"12345678")]


def test_draining_serves_what_comes_until_it_refuses_more() -> None:
    client = Client()
    client.connection.drain()
    client.say(headers(1))
    client.connection.refuse_more()
    client.say(headers(3), data(1, b"x", end=True))
    told = client.answers()
    last_ids = [U32.unpack_from(f.payload)[0] for f in told if f.kind == GOAWAY]
    assert last_ids == [(1 << 31) - 1, 1]
    assert [(f.stream_id, f.code) for f in told if f.kind == RST_STREAM] == [(3, E.REFUSED_STREAM)]
    assert client.seen.names(1) == ["opened", "data", "ended"]


def test_a_lost_connection_tells_every_stream() -> None:
    client = Client()
    client.say(headers(1), headers(3))
    client.connection.lost()
    assert [client.seen.names(n)[-1] for n in (1, 3)] == ["gone", "gone"]


def test_nothing_is_read_after_the_end() -> None:
    client = Client()
    client.say(frame(PING, 0, 1, b"12345678"), headers(1))
    client.say(headers(3))
    assert client.seen.events == []


# 5.1.2, 5.4.1, 6.5.3


def test_a_stream_that_ended_makes_room_for_another() -> None:
    client = Client(Limits(max_concurrent_streams=1))
    client.say(headers(1, flags=5))
    client.connection.send_headers(client.stream(), b"\x88", end=True)
    client.say(headers(3))
    assert (client.seen.names(3), client.resets()) == (["opened"], {})


def test_goaway_names_the_last_stream_that_was_seen() -> None:
    client = Client()
    client.say(headers(1), headers(7), frame(PING, 0, 1, b"12345678"))
    [told] = [f for f in client.answers() if f.kind == GOAWAY]
    assert U32.unpack_from(told.payload)[0] == 7


def test_of_one_setting_twice_in_a_frame_the_last_counts() -> None:
    client = Client()
    size = Setting.INITIAL_WINDOW_SIZE
    client.say(frame(SETTINGS, 0, 0, frames.SETTING.pack(size, 1) + frames.SETTING.pack(size, 3)), headers())
    client.answers()
    client.connection.send_data(client.stream(), b"abcde")
    assert [f.payload for f in client.answers()] == [b"abc"]


def test_every_settings_frame_is_acknowledged_once() -> None:
    client = Client()
    client.say(setting(0x99, 1), frame(SETTINGS, 0, 0, b""), setting(Setting.MAX_FRAME_SIZE, 20_000))
    assert [(f.kind, f.flags) for f in client.answers()] == [(SETTINGS, ACK)] * 3


def test_a_reset_in_any_state_ends_the_stream_without_a_word() -> None:
    client = Client()
    client.say(headers(1), headers(3, flags=5), *(frame(RST_STREAM, 0, n, U32.pack(8)) for n in (1, 3)))
    assert (client.resets(), client.connection.streams) == ({}, {})
    assert [client.seen.names(n)[-1] for n in (1, 3)] == ["gone", "gone"]
