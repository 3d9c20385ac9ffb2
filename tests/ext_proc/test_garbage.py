"""What a request made goes with its answer: no cycle keeps it, and a body, until garbage is collected."""

from __future__ import annotations

import gc
import json
from collections.abc import Callable, Iterator
from itertools import count
from struct import pack
from typing import Final

import pytest

from ext_proc.transport.grpc_calls import Calls
from ext_proc.transport.http2.connection import Connection
from ext_proc.transport.http2.frames import (
    DATA,
    END_STREAM,
    PREFACE,
    RST_STREAM,
    SETTINGS_ACK,
    U32,
    frame,
    settings,
)
from ext_proc.transport.methods import Process
from tests.ext_proc.http2.client import REQUEST, headers
from tests.ext_proc.parts import Picker, body_message

REQUESTS: Final = 50
METHOD: Final = b"/service/Method"  # the path of `headers`
BODIES: Final = {
    "routed": {"model": "phi-3", "messages": [{"role": "user", "content": "Hello"}]},
    "weighted": {"model": "qwen2.5-72b", "messages": []},
    "refused": {"model": "nobody-knows"},
}


@pytest.fixture
def picker() -> Picker:
    one = Picker()
    one.sample("10.0.0.1:8000")
    one.sample("10.0.0.2:8000")
    return one


@pytest.fixture(autouse=True)
def by_hand() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


def garbage_of(work: Callable[[], object]) -> int:
    """How many objects `work` leaves that only the collector can free."""
    work()  # what is made once
    while gc.collect():  # what tests before left may take several rounds
        pass
    for _ in range(REQUESTS):
        work()
    return gc.collect()


@pytest.mark.parametrize("name", BODIES)
def test_a_decision_leaves_no_cycle(picker: Picker, name: str) -> None:
    body = json.dumps(BODIES[name]).encode()
    assert garbage_of(lambda: picker.reply(body)) < REQUESTS


@pytest.mark.parametrize("end", ["half-closed", "reset", "no gRPC"])
def test_a_stream_leaves_no_cycle(picker: Picker, end: str) -> None:
    message = body_message(json.dumps(BODIES["routed"]).encode())
    framed = pack(">BI", 0, len(message)) + message
    calls = Calls(
        {METHOD: lambda call: Process(call, picker.session(), picker.metrics)},
        lambda _seconds, _callback: lambda: None,
        lambda: None,
        max_message_bytes=1 << 20,
        max_buffered_bytes=1 << 20,
    )
    connection = calls.connection = Connection(calls)
    connection.receive(PREFACE + settings({}) + SETTINGS_ACK, 0.0)
    numbers = count(1, 2)

    def refused() -> None:
        stream = next(numbers)
        fields = [("content-type", "text/html") if name == "content-type" else (name, value) for name, value in REQUEST]
        connection.receive(headers(stream, tuple(fields)) + frame(DATA, END_STREAM, stream), 0.0)
        assert connection.sender.take()

    def request() -> None:
        stream = next(numbers)
        ends = {
            "half-closed": frame(DATA, END_STREAM, stream),
            "reset": frame(RST_STREAM, 0, stream, U32.pack(0)),
        }
        connection.receive(headers(stream) + frame(DATA, 0, stream, framed), 0.0)
        assert b"10.0.0." in connection.sender.take()
        connection.receive(ends[end], 0.0)
        connection.sender.take()

    assert garbage_of(refused if end == "no gRPC" else request) < REQUESTS
    assert not connection.streams
    assert picker.metrics.open_streams == 0
