"""Answers leave while the rest of what was received in one go is still being read."""

from __future__ import annotations

from struct import pack

from ext_proc.transport.grpc_calls import Call, Calls
from ext_proc.transport.http2 import frames
from ext_proc.transport.http2.connection import Connection
from ext_proc.transport.http2.frames import HEADERS, PREFACE
from tests.ext_proc.http2.client import data, headers

REQUESTS = 10


class Echo:
    """Answers each message with itself."""

    def __init__(self, call: Call) -> None:
        self._call = call

    def message(self, pieces: list[bytes | memoryview]) -> None:
        self._call.send(b"".join(pieces))

    def half_closed(self) -> None: ...

    def gone(self) -> None: ...


def echo(requests: int, *, early: bool) -> tuple[list[bytes], bytes]:
    """What was written while `requests` that came in one go were read, and what was left for afterwards."""
    written: list[bytes] = []
    calls = Calls(
        {b"/service/Method": Echo},
        lambda _seconds, _callback: lambda: None,
        lambda: None,
        max_message_bytes=1 << 20,
        max_buffered_bytes=1 << 20,
    )
    connection = calls.connection = Connection(calls, write=written.append if early else None)
    connection.receive(b"".join((PREFACE, frames.settings({}), frames.SETTINGS_ACK)), 0.0)
    connection.sender.take()
    ids = range(1, 2 * requests, 2)
    connection.receive(b"".join(headers(n) + data(n, pack(">BI", 0, 1) + b"%d" % (n % 10)) for n in ids), 0.0)
    return written, connection.sender.take()


def test_the_first_answers_do_not_wait_for_the_last_request() -> None:
    written, left = echo(REQUESTS, early=True)
    assert [part.count(b"application/grpc") for part in written] == [4, 4]
    assert left.count(b"application/grpc") == REQUESTS - 8


def test_nothing_is_lost_doubled_or_out_of_order() -> None:
    written, left = echo(REQUESTS, early=True)
    assert b"".join(written) + left == echo(REQUESTS, early=False)[1]


def test_few_answers_leave_in_one_write() -> None:
    assert echo(3, early=True) == ([], echo(3, early=False)[1])
    assert frames.FRAME_HEADER.unpack_from(echo(3, early=True)[1])[2] == HEADERS
