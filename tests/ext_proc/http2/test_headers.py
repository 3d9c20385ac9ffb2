"""Header blocks of Envoy are decoded once, for as long as the dynamic table stays as it is."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

import pytest
from hpack.exceptions import HPACKError
from hpack.huffman import HuffmanEncoder
from hpack.huffman_constants import REQUEST_CODES, REQUEST_CODES_LENGTH
from hypothesis import given, settings
from hypothesis import strategies as st

from ext_proc.transport.http2.frames import Http2ConnectionError
from ext_proc.transport.http2.headers import Block, HeaderReader, MalformedError, RequestHeaders, _checked
from ext_proc.transport.http2.traceparent import HUFFMAN_TRACEPARENT, HUFFMAN_TRACESTATE, Literal, split
from tidegate.domain.trace_context import read_traceparent

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
        pytest.param(b"\x83\x86\x84\x0f\x90\x00\x01\x80", id="an index of three bytes"),
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
    assert value.plain
    assert value.unsampled == (flags == 0)
    assert value.decoded() == text.encode()


@given(block=st.binary(max_size=200))
def test_any_bytes_are_split_or_not_and_nothing_is_lost(block: bytes) -> None:
    found = split(block)
    if found is not None:
        left_out = [found.trace.size] if found.trace is not None else []
        left_out += [value.size for value in found.others]
        assert len(found.key) + sum(left_out) == len(block)


CODED_DIGITS: Final = st.text("0123456789abcdef-", max_size=60).map(lambda text: HUFFMAN.encode(text.encode()))


@given(
    data=st.binary(max_size=12) | CODED_DIGITS,
    behind=st.sampled_from([b"", b"", b"\xff", b"\xff\xff", b"\xff\x7f", b"\x00"]),
)
def test_plain_is_what_decodes_to_hexadecimal_digits_and_dashes(data: bytes, behind: bytes) -> None:
    value = Literal(bytes((0x80 | len(data + behind),)) + data + behind)
    try:
        text = value.decoded()
    except HPACKError:
        text = b"broken"
    assert value.plain == (not text.strip(b"0123456789abcdef-"))


class Uncached(HeaderReader):
    """Decodes every block."""

    def request(self, block: bytes) -> Block:
        return _checked(self._decode(block))


def told(reader: HeaderReader, block: bytes) -> object:
    """What a block means; the kind of its fault."""
    try:
        found = reader.request(block)
    except Http2ConnectionError as exc:
        return exc.code
    if isinstance(found, MalformedError):
        return MalformedError
    trace = None if found.traceparent is None else read_traceparent(found.traceparent.decode("latin-1"))
    return found.method, found.path, found.fields, trace if trace is not None and trace.sampled else None


def same(blocks: Iterable[bytes], max_list_bytes: int = 8192) -> None:
    """Each block means what it means without caches, up to the first that ends the connection."""
    cached, plain = HeaderReader(max_list_bytes), Uncached(max_list_bytes)
    for block in blocks:
        expected = told(plain, block)
        assert expected == told(cached, block)
        if isinstance(expected, int):
            return


CALL: Final = b"\x83" + PATH + b"\x86"
PLAIN_VALUES: Final = st.sampled_from(
    [TRACE + "00", TRACE + "01", TRACE.replace("4", "9") + "01", "", "a=b", "trailers"]
)
BAD_VALUES: Final = st.sampled_from([" a=b", "a=b ", "a\tb\t", "a\r\nb", "\0", "gzip"]) | st.text(
    "\n 0a\xff", max_size=3
)
NAMES: Final = st.sampled_from(["traceparent", "tracestate", "te", "x", "Traceparent"])


@st.composite
def strings(draw: st.DrawFn, texts: st.SearchStrategy[str]) -> bytes:
    said = literal(draw(texts), huffman=draw(st.booleans()))
    if draw(st.integers(0, 19)):
        return said
    return bytes((said[0] ^ draw(st.sampled_from([0x80, 1, 2])),)) + said[1:]


@st.composite
def fields(draw: st.DrawFn) -> bytes:
    """A field in any form of RFC 7541, section 6, of which some change the dynamic table or look into it."""
    form = draw(st.sampled_from([b"\x00", b"\x00", b"\x00", b"\x10", b"\x40", b"index", b"named"]))
    if form == b"index":
        return draw(st.sampled_from([b"\xbe", b"\xbf", b"\x90", b"\xff\x00", b"\x20", b"\x80"]))
    value = draw(strings(PLAIN_VALUES | BAD_VALUES))
    if form == b"named":
        return draw(st.sampled_from([b"\x0f\x10", b"\x1f\x10", b"\x5f", b"\x0f\x2f", b"\x0f\x90\x00", b"\x0e"])) + value
    return form + draw(strings(NAMES)) + value


@st.composite
def conversations(draw: st.DrawFn) -> list[bytes]:
    """Blocks put together of few fields, so that many are alike; some bytes of some are others."""
    pool = draw(st.lists(fields(), min_size=1, max_size=5))
    pool += [b"\x00" + literal("traceparent") + literal(TRACE + flags) for flags in ("00", "01")]
    blocks = [
        CALL + b"".join(draw(st.lists(st.sampled_from(pool), max_size=3))) for _ in range(draw(st.integers(1, 8)))
    ]
    if draw(st.booleans()):
        at, number = draw(st.integers(0, 200)), draw(st.integers(0, len(blocks) - 1))
        block = blocks[number]
        blocks.append(block[: at % len(block)] + draw(st.binary(max_size=2)) + block[at % len(block) + 1 :])
    return [block for block in blocks for _ in range(draw(st.integers(1, 2)))]


@settings(max_examples=400)
@given(blocks=conversations())
def test_what_came_before_changes_nothing_of_what_a_block_means(blocks: list[bytes]) -> None:
    same(blocks)


@given(
    value=st.binary(min_size=0, max_size=130) | st.just((TRACE + "00").encode()),
    length=st.none() | st.integers(0, 255),
    cut=st.integers(0, 3),
    state=st.sampled_from([None, "", "a=b"]),
)
def test_nor_does_a_block_that_is_alike_but_for_any_traceparent(
    value: bytes, length: int | None, cut: int, state: str | None
) -> None:
    """Its length true or not, and cut off or not."""
    head = CALL + b"\x00" + literal("te") + literal("trailers") + b"\x00" + literal("traceparent")
    tail = b"" if state is None else b"\x00" + literal("tracestate") + literal(state)
    size = min(len(value), 127) if length is None else length
    block = head + bytes((size,)) + value + tail
    same([head + literal(TRACE + "00") + tail, head + literal(TRACE + "01") + tail, block[: len(block) - cut]])


def envoy_blocks(of: str) -> list[bytes]:
    text = (Path(__file__).parent / "envoy_blocks.txt").read_text(encoding="ascii")
    return [bytes.fromhex(line.split()[1]) for line in text.splitlines() if line.startswith(of)]


@pytest.mark.parametrize("of", ["calls", "health"])
def test_blocks_of_a_real_envoy_mean_what_they_mean_without_caches(of: str) -> None:
    blocks = envoy_blocks(of)
    assert len(blocks) > 10
    same(blocks * 2)


class Counting(HeaderReader):
    """Says which blocks it decoded."""

    def __init__(self) -> None:
        super().__init__(65_536)
        self.decoded: list[bytes] = []

    def _decode(self, block: bytes) -> list[tuple[bytes, bytes]]:
        self.decoded.append(block)
        return super()._decode(block)


@pytest.mark.parametrize("of", ["calls", "health"])
def test_good_blocks_of_a_real_envoy_are_decoded_once_when_its_table_is_empty(of: str) -> None:
    """The first still filled the table, the second empties it, and the third is like all others."""
    reader, blocks = Counting(), envoy_blocks(of)
    bad = [block for block in blocks if isinstance(reader.request(block), MalformedError)]
    assert reader.decoded == [*blocks[:3], *bad]


@pytest.mark.parametrize("name", ["traceparent", "tracestate"])
@pytest.mark.parametrize("bad", [" a=b", "a=b\t", "a\r\nb", "a\0"])
@pytest.mark.parametrize("huffman", [True, False])
def test_a_bad_value_of_a_trace_is_refused_and_good_ones_are_not(
    reader: HeaderReader, name: str, bad: str, huffman: bool
) -> None:
    good, worse = (CALL + b"\x00" + literal(name) + literal(value, huffman=huffman) for value in ("00-01", bad))
    for _ in range(2):
        assert isinstance(reader.request(worse), MalformedError)
        assert isinstance(reader.request(good), RequestHeaders)


def test_a_block_that_another_leaves_without_its_trace_is_read_as_itself(reader: HeaderReader) -> None:
    """The value that the first has, and the second has not, is what makes the rest of the second other fields."""
    head, rest = CALL + b"\x00\x0atracestate", b"\x00\x01a" + bytes((97,)) + b"v" * 96 + b"\x90"
    for _ in range(2):
        assert read(reader, head + b"\x01x" + rest).fields == {b"a": b"v" * 96 + b"\x90"}
        assert isinstance(reader.request(head + rest), MalformedError)


@pytest.mark.parametrize("form", [b"\x00", b"\x10"])
def test_the_last_traceparent_counts_in_whichever_form(form: bytes) -> None:
    first, last = TRACE + "01", TRACE.replace("4", "9") + "01"
    block = CALL + b"\x00" + literal("traceparent") + literal(first) + form + literal("traceparent") + literal(last)
    same([block, block])
    assert read(HeaderReader(8192), block).traceparent == last.encode()


def test_a_longer_trace_does_not_slip_under_the_limit_of_a_list() -> None:
    for limit in range(200, 420, 3):
        same([traced("01", state="a=b"), traced("01", state="a" * 100), traced("01", state="b" * 126)], limit)


def test_a_broken_trace_is_none(reader: HeaderReader) -> None:
    block = traced("01")
    at = block.index(HUFFMAN_TRACEPARENT) + len(HUFFMAN_TRACEPARENT) + 1
    read(reader, block)
    assert read(reader, block[:at] + b"\x00" * 4 + block[at + 4 :]).traceparent != (TRACE + "01").encode()
