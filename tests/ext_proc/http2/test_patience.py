"""The end of a stream that nobody waits for leaves with what is sent next, and before long by itself."""

from __future__ import annotations

from collections.abc import Callable
from struct import pack

from ext_proc.buffered import Pieces
from ext_proc.transport.grpc_calls import Call, Calls
from ext_proc.transport.http2 import frames
from ext_proc.transport.http2.connection import Connection
from ext_proc.transport.http2.frames import PREFACE
from tests.ext_proc.http2.client import data, headers


class Echo:
    def __init__(self, call: Call) -> None:
        self._call = call

    def message(self, pieces: Pieces) -> None:
        self._call.send(b"".join(pieces))

    def half_closed(self) -> None:
        self._call.finish(urgent=False)

    def gone(self) -> None: ...


def talk() -> Connection:
    def never(_: float, __: Callable[[], None]) -> Callable[[], object]:
        return list

    methods = {b"/service/Method": Echo}
    calls = Calls(methods, never, lambda: None, max_message_bytes=1 << 20, max_buffered_bytes=1 << 20)
    calls.connection = Connection(calls)
    calls.connection.receive(b"".join((PREFACE, frames.settings({}), frames.SETTINGS_ACK)), 0.0)
    assert calls.connection.sender.urgent
    calls.connection.sender.take()
    return calls.connection


MESSAGE = pack(">BI", 0, 5) + b"hello"


def test_an_answer_is_urgent_and_the_end_behind_it_is_not() -> None:
    connection = talk()
    connection.receive(headers(1) + data(1, MESSAGE), 0.0)
    assert connection.sender.urgent
    connection.sender.take()
    connection.receive(data(1, b"", end=True), 0.0)
    assert (connection.sender.urgent, connection.sender.has_output) == (False, True)


def test_an_end_makes_what_comes_with_it_no_less_urgent() -> None:
    connection = talk()
    connection.receive(headers(1) + data(1, MESSAGE), 0.0)
    connection.sender.take()
    connection.receive(data(1, b"", end=True) + headers(3) + data(3, MESSAGE), 0.0)
    assert connection.sender.urgent
    assert b"hello" in connection.sender.take()
    assert not connection.sender.urgent


def test_an_error_is_urgent() -> None:
    connection = talk()
    connection.receive(headers(1) + data(1, MESSAGE[:3], end=True), 0.0)
    assert connection.sender.urgent
