"""Header blocks of Envoy are decoded once, for as long as the dynamic table stays as it is."""

from __future__ import annotations

from typing import Final

import pytest
from hpack.huffman import HuffmanEncoder
from hpack.huffman_constants import REQUEST_CODES, REQUEST_CODES_LENGTH
from hypothesis import given
from hypothesis import strategies as st

from ext_proc.transport.http2.frames import Http2ConnectionError
from ext_proc.transport.http2.headers import HeaderReader, MalformedError, RequestHeaders
from ext_proc.transport.http2.traceparent import HUFFMAN_TRACEPARENT, HUFFMAN_TRACESTATE, Literal, split

HUFFMAN: Final = HuffmanEncoder(REQUEST_CODES, REQUEST_CODES_LENGTH)

PATH = bytes.fromhex("04a560b5773fa5d05b3b98855cbe5315761c8bf7657c1e525b2a1d1aec390a841ec635d8721508")
"""`:path: /envoy.service.ext_proc.v3.ExternalProcessor/Process` as Envoy 1.40 writes it: never indexed."""
FIRST = b"\x83" + PATH + b"\x41\x08ext_proc" + b"\x86" + b"\x40\x02te\x08trailers"
AFTER = b"\x83" + PATH + b"\xbf\x86\xbe"


@pytest.fixture
def reader() -> HeaderReader:
    return HeaderReader(65_536)


def read(reader: HeaderReader, block: bytes) -> RequestHeaders:
    found = reader.request(block)
    assert isinstance(found, RequestHeaders)
    return found


def test_a_block_of_envoy_is_decoded_once(reader: HeaderReader) -> None:
    read(reader, FIRST)
    first = read(reader, AFTER)
    assert first.path == b"/envoy.service.ext_proc.v3.ExternalProcessor/Process"
    assert first.fields == {b"te": b"trailers"}
    assert reader.request(AFTER) is first


@pytest.mark.parametrize(
    "block",
    [
        pytest.param(FIRST, id="indexing"),
        pytest.param(b"\x20\x83\x86\x84", id="table size"),
        pytest.param(b"\x83\x86\x84\x00\x01x\x7f\x81\x01" + b"y" * 256, id="a long value"),
        pytest.param(b"\x83\x86\x84" + b"\x00\x01x\x50" + b"y" * 80 + b"\x00\x01x\x01y" * 200, id="a long block"),
    ],
)
def test_a_block_that_may_move_the_table_or_is_long_is_decoded_each_time(reader: HeaderReader, block: bytes) -> None:
    read(reader, block)
    assert reader.request(block) is not reader.request(block)


TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-"


def literal(text: str, *, huffman: bool = True) -> bytes:
    data = HUFFMAN.encode(text.encode()) if huffman else text.encode()
    return bytes((len(data) | (0x80 if huffman else 0),)) + data


def traced(flags: str, *, huffman: bool = True, state: str = "") -> bytes:
    """A block as Envoy writes it where the dynamic table has no room."""
    fields = [("te", "trailers"), ("traceparent", TRACE + flags), ("tracestate", state)]
    said = b"".join(b"\x00" + literal(name) + literal(value, huffman=huffman) for name, value in fields)
    return b"\x83" + PATH + b"\x86" + said


def test_names_of_trace_fields_are_coded_as_the_library_does() -> None:
    assert HUFFMAN.encode(b"traceparent") == HUFFMAN_TRACEPARENT
    assert HUFFMAN.encode(b"tracestate") == HUFFMAN_TRACESTATE


@pytest.mark.parametrize("huffman", [True, False])
def test_blocks_that_differ_in_their_trace_alone_are_decoded_once(reader: HeaderReader, huffman: bool) -> None:
    first = read(reader, traced("01", huffman=huffman))
    other = read(reader, traced("01", huffman=huffman, state="a=b"))
    assert first.fields is other.fields
    assert first.fields[b"te"] == b"trailers"
    assert other.traceparent == (TRACE + "01").encode()


@pytest.mark.parametrize("huffman", [True, False])
@given(trace=st.integers(1, 2**128 - 1), span=st.integers(1, 2**64 - 1), flags=st.integers(0, 255))
def test_only_what_is_not_sampled_is_not_decoded(huffman: bool, trace: int, span: int, flags: int) -> None:
    text = f"00-{trace:032x}-{span:016x}-{flags:02x}"
    value = Literal(literal(text, huffman=huffman))
    assert value.unsampled == (flags == 0)
    assert value.decoded() == text.encode()


@given(block=st.binary(max_size=200))
def test_any_bytes_are_split_or_not_and_nothing_is_lost(block: bytes) -> None:
    found = split(block)
    if found is not None and found[1] is None and b"\x4d\x83\x21" not in block and b"tracestate" not in block:
        assert found[0] == block


@given(
    before=st.integers(0, 255),
    value=st.binary(min_size=0, max_size=130) | st.just((TRACE + "00").encode()),
    length=st.none() | st.integers(0, 255),
    cut=st.integers(0, 3),
    state=st.sampled_from([None, "", "a=b"]),
)
def test_what_came_before_changes_nothing_of_what_a_block_means(
    before: int, value: bytes, length: int | None, cut: int, state: str | None
) -> None:
    """Blocks alike in all but the value of the traceparent, its length true or not, and cut off or not."""
    head = b"\x83" + PATH + b"\x86\x00" + literal("te") + literal("trailers") + b"\x00" + literal("traceparent")
    tail = b"" if state is None else b"\x00" + literal("tracestate") + literal(state)
    size = min(len(value), 127) if length is None else length
    block = head + bytes((size,)) + value + tail
    block = block[: len(block) - cut]
    warm = HeaderReader(8192)
    for flags in (f"{before:02x}", "01"):
        warm.request(head + literal(TRACE + flags) + tail)
    assert told(warm, block) == told(HeaderReader(8192), block)


def told(reader: HeaderReader, block: bytes) -> object:
    """What a block means; the kind of its fault."""
    try:
        found = reader.request(block)
    except Http2ConnectionError as exc:
        return exc.code
    if isinstance(found, MalformedError):
        return MalformedError
    return found.method, found.path, found.traceparent if found.traceparent != (TRACE + "00").encode() else None


def test_a_broken_trace_is_none(reader: HeaderReader) -> None:
    block = traced("01")
    at = block.index(HUFFMAN_TRACEPARENT) + len(HUFFMAN_TRACEPARENT) + 1
    read(reader, block)
    assert read(reader, block[:at] + b"\x00" * 4 + block[at + 4 :]).traceparent != (TRACE + "01").encode()
