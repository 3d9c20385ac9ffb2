"""Header blocks of Envoy are decoded once, for as long as the dynamic table stays as it is."""

from __future__ import annotations

import pytest

from ext_proc.transport.http2.headers import HeaderReader, RequestHeaders

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
