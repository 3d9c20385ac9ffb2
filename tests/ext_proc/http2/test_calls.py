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


def talk(*parts: bytes, method: type[Quiet] = Quiet) -> tuple[Calls, list[str]]:
    timers: list[str] = []

    def after(seconds: float, callback: Callable[[], None]) -> Callable[[], object]:
        timers.append(f"{seconds:.0f} s")
        return timers.pop

    calls = Calls(
        {b"/service/Method": method}, after, lambda: None, max_message_bytes=1 << 20, max_buffered_bytes=1 << 20
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


def test_small_parts_of_a_message_are_put_together() -> None:
    parts = [data(1, pack(">BI", 0, 200_000))] + [data(1, b"xy")] * 40_000
    calls, _ = talk(headers(1), *parts)
    assert calls.connection is not None
    chunks = calls.connection.streams[1].call.reading.chunks
    assert (sum(map(len, chunks)), calls._buffered) == (80_000, 80_000)
    assert len(chunks) <= 3


def test_small_and_large_parts_make_the_message_that_was_sent() -> None:
    seen: list[bytes] = []

    class Keeps(Quiet):
        def message(self, pieces: list[bytes | memoryview]) -> None:
            seen.append(b"".join(pieces))

    calls, _ = talk(headers(1), method=Keeps)
    assert calls.connection is not None
    sent = [bytes((number % 251,)) * size for number, size in enumerate((1, 700, 1, 5_000, 3, 16_000, 9, 0, 40))]
    raw = b"".join(pack(">BI", 0, len(one)) + one for one in sent)
    at = 0
    for size in (1, 2, 3, 500, 10, 4_000, 7, 1_024, 1_023, 9_000, 5, 16_000):
        calls.connection.receive(data(1, raw[at : at + size]), 0.0)
        at += size
    assert at >= len(raw)
    assert seen == sent
