"""gRPC over HTTP/2 ("PROTOCOL-HTTP2.md"), rule by rule, in raw frames: (what the client sends, the status it gets)."""

from __future__ import annotations

from collections.abc import Callable
from struct import pack
from typing import Final
from urllib.parse import unquote

import pytest
from grpc import StatusCode
from hpack import Decoder

from ext_proc.transport.grpc_calls import Call, Calls
from ext_proc.transport.http2 import frames
from ext_proc.transport.http2.connection import Connection
from ext_proc.transport.http2.frames import DATA, END_STREAM, FRAME_HEADER, HEADERS, PREFACE, RST_STREAM, ErrorCode
from tests.ext_proc.http2.client import REQUEST, Fields, data, headers, without

MOST: Final = 1_000


class Echo:
    """Answers each message with itself; `boom` ends the call with a status of its own."""

    def __init__(self, call: Call) -> None:
        self._call = call

    def message(self, pieces: list[bytes | memoryview]) -> None:
        message = b"".join(pieces)
        if message == b"boom":
            self._call.finish(StatusCode.INTERNAL, "50 % lost:\n\u00e4")
        else:
            self._call.send(message)

    def half_closed(self) -> None:
        self._call.finish()

    def gone(self) -> None: ...


class Talk:
    """A client of raw frames; `fields`, `body` and `resets` are what it heard of stream 1."""

    def __init__(self, *said: bytes) -> None:
        self.timers: list[tuple[float, Callable[[], None]]] = []
        calls = Calls(
            {b"/service/Method": Echo}, self._after, lambda: None, max_message_bytes=MOST, max_buffered_bytes=10 * MOST
        )
        self.connection = calls.connection = Connection(calls)
        self.fields: list[dict[bytes, bytes]] = []
        self.body, self.ended = b"", False
        self.resets: list[ErrorCode] = []
        self._decoder = Decoder()
        self.say(PREFACE, frames.settings({}), frames.SETTINGS_ACK, *said)

    def _after(self, seconds: float, callback: Callable[[], None]) -> Callable[[], object]:
        self.timers.append((seconds, callback))
        return self.timers.pop

    def say(self, *parts: bytes) -> None:
        self.connection.receive(b"".join(parts), 0.0)
        self.hear()

    def hear(self) -> None:
        raw = self.connection.sender.take()
        while raw:
            high, low, kind, flags, stream = FRAME_HEADER.unpack_from(raw)
            end = 9 + (high << 8 | low)
            if kind == HEADERS:
                self.fields.append(dict(self._decoder.decode(raw[9:end], raw=True)))
            elif kind == DATA:
                self.body += raw[9:end]
            elif kind == RST_STREAM:
                self.resets.append(ErrorCode(int.from_bytes(raw[9:end], "big")))
            self.ended |= kind in {HEADERS, DATA} and stream == 1 and bool(flags & END_STREAM)
            raw = raw[end:]

    @property
    def status(self) -> StatusCode | None:
        number = self.fields[-1].get(b"grpc-status") if self.fields else None
        return None if number is None else next(code for code in StatusCode if code.value[0] == int(number))


def prefixed(message: bytes, flag: int = 0) -> bytes:
    return pack(">BI", flag, len(message)) + message


def changed(**fields: str) -> Fields:
    named = {f":{n}" if n in {"path", "method"} else n.replace("_", "-"): value for n, value in fields.items()}
    return (*((name, named.pop(name, value)) for name, value in REQUEST), *named.items())


PLAIN: Final = REQUEST[:4]
GZIP: Final = (*REQUEST, ("grpc-encoding", "gzip"))
UNKNOWN: Final = StatusCode.UNIMPLEMENTED
STATUS: Final = {
    "a message and its end": ([headers(), data(1, prefixed(b"x"), end=True)], StatusCode.OK),
    "no message at all": ([headers(flags=5)], StatusCode.OK),
    "an empty message": ([headers(), data(1, prefixed(b""), end=True)], StatusCode.OK),
    "an end by an empty frame": ([headers(), data(1, prefixed(b"x")), data(1, b"", end=True)], StatusCode.OK),
    "an end by trailers": ([headers(), data(1, prefixed(b"x")), headers(1, (("x", "y"),), flags=5)], StatusCode.OK),
    "a content-type with a format": ([headers(1, changed(content_type="application/grpc+proto"), flags=5)], StatusCode.OK),
    "fields that nobody knows": ([headers(1, (*REQUEST, ("x-any", "1"), ("grpc-encoding", "identity")), flags=5)], StatusCode.OK),
    "another method": ([headers(1, changed(path="/service/Other"), flags=5)], UNKNOWN),
    "another service": ([headers(1, changed(path="/other/Method"), flags=5)], UNKNOWN),
    "a path of no method": ([headers(1, changed(path="/"), flags=5)], UNKNOWN),
    "a compressed message": ([headers(1, GZIP), data(1, prefixed(b"x", flag=1))], UNKNOWN),
    "a compressed message in no coding": ([headers(), data(1, prefixed(b"x", flag=1))], StatusCode.INTERNAL),
    "a compressed message in the coding that is none": ([headers(1, (*REQUEST, ("grpc-encoding", "identity"))), data(1, prefixed(b"x", flag=1))], StatusCode.INTERNAL),
    "a message whose flag is neither 0 nor 1": ([headers(1, GZIP), data(1, prefixed(b"x", flag=2))], StatusCode.INTERNAL),
    "a message that is not compressed though a coding is named": ([headers(1, GZIP), data(1, prefixed(b"x"), end=True)], StatusCode.OK),
    "a coding that nobody knows, and nothing in it": ([headers(1, (*REQUEST, ("grpc-encoding", "snappy"), ("grpc-accept-encoding", "x"))), data(1, prefixed(b"x"), end=True)], StatusCode.OK),
    "a binary field that is no base64": ([headers(1, (*REQUEST, ("x-any-bin", "%%%"))), data(1, prefixed(b"x"), end=True)], StatusCode.OK),
    "no te": ([headers(1, without("te"), flags=5)], StatusCode.OK),
    "a host in place of :authority": ([headers(1, (*without(":authority"), ("host", "x")), flags=5)], StatusCode.OK),
    "a content-type with a parameter": ([headers(1, changed(content_type="application/grpc; a=b"), flags=5)], StatusCode.OK),
    "a message just under the limit": ([headers(), data(1, prefixed(b"x" * MOST), end=True)], StatusCode.OK),
    "a message over the limit": ([headers(), data(1, prefixed(b"x" * (MOST + 1)))], StatusCode.RESOURCE_EXHAUSTED),
    "a message of 4 GiB that only its prefix tells": ([headers(), data(1, b"\0\xff\xff\xff\xff")], StatusCode.RESOURCE_EXHAUSTED),
    "an end inside a message": ([headers(), data(1, prefixed(b"abc")[:6], end=True)], StatusCode.INTERNAL),
    "an end inside a prefix": ([headers(), data(1, b"\0\0", end=True)], StatusCode.INTERNAL),
    "a timeout without a unit": ([headers(1, (*REQUEST, ("grpc-timeout", "5")))], StatusCode.INTERNAL),
    "a timeout in words": ([headers(1, (*REQUEST, ("grpc-timeout", "15 seconds")))], StatusCode.INTERNAL),
    "a timeout below zero": ([headers(1, (*REQUEST, ("grpc-timeout", "-1S")))], StatusCode.INTERNAL),
    "a timeout of nine digits": ([headers(1, (*REQUEST, ("grpc-timeout", "123456789S")))], StatusCode.INTERNAL),
    "a method that fails": ([headers(), data(1, prefixed(b"boom"))], StatusCode.INTERNAL),
}  # fmt: skip


NO_CALLS: Final = {
    "a content-type that is not gRPC's": ([headers(1, changed(content_type="text/html"))], 415),
    "a content-type that only begins like gRPC's": ([headers(1, changed(content_type="application/grpc-web+proto"))], 415),
    "no content-type": ([headers(1, PLAIN)], 415),
    "GET of a page": ([headers(1, ((":method", "GET"), *PLAIN[1:]), flags=5)], 415),
    "GET of a method": ([headers(1, changed(method="GET"), flags=5)], 405),
    "PUT of a method": ([headers(1, changed(method="PUT"))], 405),
}  # fmt: skip


@pytest.mark.parametrize("rule", STATUS)
def test_a_call_ends_with_its_status_in_trailers(rule: str) -> None:
    sent, status = STATUS[rule]
    talk = Talk(*sent)
    assert (talk.status, talk.ended) == (status, True)
    assert talk.fields[0][b":status"] == b"200"
    assert talk.fields[0][b"content-type"] == b"application/grpc"
    assert talk.connection.streams == {}


@pytest.mark.parametrize("rule", STATUS)
def test_the_status_is_the_same_byte_by_byte(rule: str) -> None:
    sent, status = STATUS[rule]
    talk = Talk()
    for byte in b"".join(sent):
        talk.say(bytes((byte,)))
    assert talk.status is status


@pytest.mark.parametrize(
    "told",
    ["text/plain", "application/json", "", "application/grpc-web", "application/grpc-web+proto", "application/grpcs"],
)
def test_what_is_no_grpc_gets_415(told: str) -> None:
    talk = Talk(headers(1, changed(content_type=told)))
    assert [fields[b":status"] for fields in talk.fields] == [b"415"]
    assert talk.ended


@pytest.mark.parametrize("rule", NO_CALLS)
def test_a_client_that_speaks_no_grpc_is_told_in_words(rule: str) -> None:
    sent, status = NO_CALLS[rule]
    talk = Talk(*sent)
    [fields] = talk.fields
    assert (int(fields[b":status"]), fields[b"content-type"]) == (status, b"text/plain")
    assert (b"POST" in talk.body, talk.ended, talk.resets) == (True, True, [])
    assert (fields.get(b"allow") == b"POST") is (status == 405)


def test_head_gets_no_words() -> None:
    talk = Talk(headers(1, ((":method", "HEAD"), *PLAIN[1:]), flags=5))
    assert (talk.fields[0][b":status"], talk.body, talk.ended) == (b"415", b"", True)
    assert talk.connection.streams == {}


def test_a_stream_that_was_told_no_lasts_until_the_client_ends_it() -> None:
    talk = Talk(headers(1, PLAIN), data(1, b"x" * 9))
    assert list(talk.connection.streams) == [1]
    talk.say(data(1, b"x", end=True))
    assert (talk.connection.streams, talk.resets) == ({}, [])
    talk.say(data(1, b"x"))
    assert talk.resets == [ErrorCode.STREAM_CLOSED]


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        ([data(1, b"four+")], ErrorCode.PROTOCOL_ERROR),
        ([data(1, b"one", end=True)], ErrorCode.PROTOCOL_ERROR),
        ([headers(1, (("x", "y"),))], ErrorCode.PROTOCOL_ERROR),
        ([headers(1, ((":path", "/"),), flags=5)], ErrorCode.PROTOCOL_ERROR),
        ([frames.window_update(1, 0)], ErrorCode.PROTOCOL_ERROR),
        ([frames.window_update(1, (1 << 31) - 1)], ErrorCode.FLOW_CONTROL_ERROR),
    ],
)
def test_what_follows_a_no_is_held_to_the_rules(sent: list[bytes], code: ErrorCode) -> None:
    talk = Talk(headers(1, (*PLAIN, ("content-length", "4"))), *sent)
    assert (talk.fields[0][b":status"], talk.resets, talk.connection.streams) == (b"415", [code], {})


def test_a_no_waits_for_the_clients_window() -> None:
    talk = Talk(frames.settings({frames.Setting.INITIAL_WINDOW_SIZE: 0}), headers(1, PLAIN, flags=5))
    assert (len(talk.fields), talk.body, talk.ended) == (1, b"", False)
    talk.say(frames.window_update(1, 1))
    assert (len(talk.body), talk.ended) == (1, False)
    talk.say(frames.window_update(1, 1_000))
    assert (talk.ended, talk.connection.streams, talk.resets) == (True, {}, [])


def test_no_more_is_asked_for_of_a_stream_that_was_told_no() -> None:
    talk = Talk(headers(1, PLAIN))
    stream = talk.connection.streams[1]
    stream.window = 40_000
    talk.say(data(1, b"x" * 10_000))
    assert stream.window == 30_000


@pytest.mark.parametrize(
    "sent",
    [
        [headers(1, changed(path="/other"), flags=5)],
        [headers(), data(1, prefixed(b"boom"), end=True)],
        [headers(1, (*REQUEST, ("grpc-timeout", "none")), flags=5)],
    ],
)
def test_an_answer_to_the_frame_that_ends_the_request_is_followed_by_no_reset(sent: list[bytes]) -> None:
    assert Talk(*sent).resets == []
    talk = Talk()
    for byte in b"".join(sent):
        talk.say(bytes((byte,)))
    assert talk.resets == []


def test_a_coding_that_is_not_taken_is_answered_with_those_that_are() -> None:
    talk = Talk(headers(1, GZIP), data(1, prefixed(b"x", flag=1)))
    assert talk.fields[-1][b"grpc-accept-encoding"] == b"identity"
    assert b"grpc-accept-encoding" not in Talk(headers(), data(1, prefixed(b"x", flag=1))).fields[-1]


def test_a_call_that_fails_at_once_is_told_by_trailers_alone() -> None:
    talk = Talk(headers(1, changed(path="/other")))
    assert len(talk.fields) == 1
    assert {b":status", b"content-type", b"grpc-status"} <= talk.fields[0].keys()


def test_a_status_before_the_clients_end_is_followed_by_a_reset_without_error() -> None:
    assert Talk(headers(), data(1, prefixed(b"boom"))).resets == [ErrorCode.NO_ERROR]


def test_grpc_message_is_percent_encoded() -> None:
    told = Talk(headers(), data(1, prefixed(b"boom"))).fields[-1][b"grpc-message"].decode()
    assert told.isascii()
    assert "\n" not in told
    assert unquote(told) == "50 % lost:\n\u00e4"


def test_many_messages_in_one_frame_are_answered_in_order() -> None:
    said = [b"a", b"", b"ccc"]
    assert Talk(headers(), data(1, b"".join(map(prefixed, said)), end=True)).body == b"".join(map(prefixed, said))


def test_what_follows_a_status_is_ignored() -> None:
    talk = Talk(headers(), data(1, prefixed(b"boom") + prefixed(b"more")))
    talk.say(data(1, prefixed(b"yet more"), end=True))
    assert (talk.body, len(talk.fields), talk.connection.closed) == (b"", 1, False)


@pytest.mark.parametrize(
    ("told", "seconds"), [("1H", 3600), ("2M", 120), ("3S", 3), ("4m", 0.004), ("5u", 5e-6), ("6n", 6e-9), ("0S", 0)]
)
def test_every_unit_of_a_timeout_is_known_and_its_end_is_a_status(told: str, seconds: float) -> None:
    talk = Talk(headers(1, (*REQUEST, ("grpc-timeout", told))))
    [(after, passed)] = talk.timers
    assert after == pytest.approx(seconds)
    passed()
    talk.hear()
    assert talk.status is StatusCode.DEADLINE_EXCEEDED
