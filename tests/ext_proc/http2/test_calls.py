"""What unfinished messages and calls that ended leave behind."""

from __future__ import annotations

from collections.abc import Callable
from struct import pack

from ext_proc.transport.grpc_calls import Call, Calls
from ext_proc.transport.http2 import frames
from ext_proc.transport.http2.connection import Connection
from ext_proc.transport.http2.frames import PREFACE
from tests.ext_proc.http2.client import REQUEST, data, headers


class Quiet:
    """Answers nothing and ends with the client."""

    def __init__(self, call: Call) -> None:
        self._call = call

    def message(self, pieces: list[bytes | memoryview]) -> None: ...

    def half_closed(self) -> None:
        self._call.finish()

    def gone(self) -> None: ...


def talk(*parts: bytes) -> tuple[Calls, list[str]]:
    timers: list[str] = []

    def after(seconds: float, callback: Callable[[], None]) -> Callable[[], object]:
        timers.append(f"{seconds:.0f} s")
        return timers.pop

    calls = Calls(
        {b"/service/Method": Quiet}, after, lambda: None, max_message_bytes=1 << 20, max_buffered_bytes=1 << 20
    )
    calls.connection = Connection(calls)
    calls.connection.receive(b"".join((PREFACE, frames.settings({}), frames.SETTINGS_ACK, *parts)), 0.0)
    return calls, timers


def test_a_deadline_ends_with_its_call() -> None:
    timed = (*REQUEST, ("grpc-timeout", "5S"))
    calls, timers = talk(headers(1, timed))
    assert timers == ["5 s"]
    calls, timers = talk(headers(1, timed), data(1, b"", end=True))
    assert (timers, calls._deadlines) == ([], {})


def test_a_small_part_of_a_message_keeps_no_large_chunk_alive() -> None:
    large = data(3, pack(">BI", 0, 15_000) + b"x" * 15_000)
    calls, _ = talk(headers(1), headers(3), data(1, pack(">BI", 0, 100) + b"part"), large)
    assert calls.connection is not None
    (kept,) = calls.connection.streams[1].call.reading.chunks
    assert (bytes(kept), calls._buffered) == (b"part", 4)
    assert memoryview(memoryview(kept).obj).nbytes < 1_000
