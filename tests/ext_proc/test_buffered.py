"""What is read of a message by hand is what Protobuf reads, and a body is copied once."""

from __future__ import annotations

import tracemalloc
from itertools import pairwise
from struct import pack
from typing import Any

from envoy.service.ext_proc.v3 import external_processor_pb2 as pb
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from ext_proc.buffered import Attributes, Pieces, Reader
from ext_proc.metrics import ExtProcMetrics
from ext_proc.responses import routed
from ext_proc.session import Session
from ext_proc.tokens import TokenBook
from ext_proc.transport.grpc_calls import Calls
from ext_proc.transport.http2 import frames
from ext_proc.transport.http2.connection import Connection
from ext_proc.transport.methods import Process
from tests.ext_proc.http2.client import headers
from tidegate.domain.errors import ProtocolViolation

FILTER = "envoy.filters.http.ext_proc"
NAMES = ("request.path", "request.headers['content-type']", "request.headers['x-user']", "odd")
ANSWER = routed("phi-3", ("10.0.0.1:8000",))
MIB = 1 << 20


def messages() -> st.SearchStrategy[bytes]:
    """Messages as Envoy writes them, and others that it might."""
    return st.builds(
        message,
        st.binary(max_size=300) | st.just(b"x" * 20_000),
        st.dictionaries(st.sampled_from(NAMES), st.text(max_size=20)),
        end=st.booleans(),
        mode=st.integers(0, 5),
        kind=st.sampled_from(("request_body",) * 8 + ("request_headers", "response_body", "none")),
        behind=st.sampled_from((b"",) * 8 + (b"\x22\x02\x0a\x00", b"\x22\x03\x0a\x01z", b"\x12\x00", b"\xff")),
    )


def message(body: bytes, attributes: dict[str, str], **how: Any) -> bytes:
    request = pb.ProcessingRequest()
    if how["kind"] in {"request_body", "response_body"}:
        part = getattr(request, how["kind"])
        part.body, part.end_of_stream = body, how["end"]
    elif how["kind"] == "request_headers":
        request.request_headers.end_of_stream = how["end"]
    for name, value in attributes.items():
        request.attributes[FILTER].fields[name].string_value = value
    request.protocol_config.request_body_mode = how["mode"]
    return bytes(request.SerializeToString()) + bytes(how["behind"])


def by_protobuf(data: bytes) -> tuple[bytes, dict[str, str | None], int] | None:
    """Body, attributes and mode of a message with a request body; None for any other."""
    try:
        request = pb.ProcessingRequest.FromString(data)
    except Exception:  # noqa: BLE001 - whatever the library raises
        return None
    if request.WhichOneof("request") != "request_body":
        return None
    return request.request_body.body, told(Attributes(request)), request.protocol_config.request_body_mode


def told(attributes: Attributes) -> dict[str, str | None]:
    return {name: attributes.get(name) for name in NAMES}


def in_pieces(data: bytes, cuts: list[int]) -> Pieces:
    places = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    return [memoryview(data)[a:b] for a, b in pairwise(places)]


@given(
    messages(),
    st.lists(st.integers(0, 30_000), max_size=4),
    st.lists(st.tuples(st.integers(0), st.integers(0, 255)), max_size=2),
)
def test_what_is_read_by_hand_is_what_protobuf_reads(
    data: bytes, cuts: list[int], broken: list[tuple[int, int]]
) -> None:
    text = bytearray(data)
    for at, value in broken if data else ():
        text[at % min(len(text), 40)] = value
    whole, reader = bytes(text), Reader()
    for _ in range(2):  # the second time, what stands beside the body is known
        found = reader.read(in_pieces(whole, cuts))
        if found is not None:
            body, beside = found
            assert (body, told(beside.attributes), beside.mode) == by_protobuf(whole)


def test_a_message_as_envoy_writes_it_is_read_by_hand() -> None:
    for size in (1, 127, 128, 20_000, 3 * MIB):
        data = message(b"b" * size, {NAMES[0]: "/v1"}, end=True, mode=2, kind="request_body", behind=b"")
        several: list[Pieces] = [[data], [memoryview(data)], in_pieces(data, [3, 14, 100, size])]
        for pieces in several:
            found = Reader().read(pieces)
            assert found is not None
            assert (len(found[0]), found[1].attributes.get(NAMES[0])) == (size, "/v1")


@given(messages(), st.lists(st.integers(0, 30_000), max_size=4))
def test_a_session_answers_pieces_as_it_answers_the_whole(data: bytes, cuts: list[int]) -> None:
    assert heard(data) == heard(in_pieces(data, cuts))


def heard(data: bytes | Pieces) -> object:
    seen: list[object] = []

    def decide(body: bytes, attributes: Attributes) -> bytes:
        seen.append((body, told(attributes)))
        return ANSWER

    try:
        return Session(decide).handle(data), seen
    except ProtocolViolation as exc:
        return str(exc)


def test_what_stands_beside_bodies_is_kept_for_so_many_kinds_of_them_alone() -> None:
    reader = Reader()
    for number in range(1_000):
        fields = {NAMES[0]: "/" + "p" * (number % 3) * 2_000 + str(number)}
        reader.read([message(b"body", fields, end=True, mode=2, kind="request_body", behind=b"")])
        assert len(reader._kept) <= 256
    assert all(len(rest) <= 1024 for rest in reader._kept)


def test_a_body_of_32_mib_is_held_once_beside_what_was_received() -> None:
    data = message(b"b" * (32 * MIB), {NAMES[0]: "/v1"}, end=True, mode=2, kind="request_body", behind=b"")
    sizes: list[int] = []
    conversation = Wire(sizes)
    received = conversation.frames_of(data)
    del data
    tracemalloc.start()
    try:
        # Each part is made as a socket makes it, so that what the connection holds of it counts once.
        for at in range(0, len(received), 256 << 10):
            conversation.connection.receive(received[at : at + (256 << 10)], 0.0)
        after, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert sizes == [32 * MIB]
    assert peak < (32 + 32 + 3) * MIB
    assert after < 2 * MIB


class Wire:
    """A connection with the calls of a server, without its sockets."""

    def __init__(self, sizes: list[int]) -> None:
        def decide(body: bytes, _: Attributes) -> bytes:
            sizes.append(len(body))
            return ANSWER

        metrics = ExtProcMetrics(CollectorRegistry(), TokenBook([]))
        calls = Calls(
            {b"/service/Method": lambda call: Process(call, Session(decide), metrics)},
            lambda _seconds, _callback: lambda: None,
            lambda: None,
            max_message_bytes=64 * MIB,
            max_buffered_bytes=128 * MIB,
        )
        self.connection = calls.connection = Connection(calls)
        self.connection.receive(frames.PREFACE + frames.settings({}) + frames.SETTINGS_ACK, 0.0)

    def frames_of(self, data: bytes) -> bytes:
        framed = pack(">BI", 0, len(data)) + data
        parts = [framed[at : at + (1 << 14)] for at in range(0, len(framed), 1 << 14)]
        sent = b"".join(frames.frame(frames.DATA, 0, 1, part) for part in parts)
        return headers(1) + sent
