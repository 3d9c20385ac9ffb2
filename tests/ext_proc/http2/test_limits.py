"""What attacks cost: the connection ends with ENHANCE_YOUR_CALM, and what is held stays bounded."""

from __future__ import annotations

from typing import Final

import pytest

from ext_proc.transport.http2 import frames
from ext_proc.transport.http2.frames import (
    CONTINUATION,
    END_HEADERS,
    HEADERS,
    PING,
    PRIORITY,
    RST_STREAM,
    U32,
    WINDOW_UPDATE,
    ErrorCode,
    frame,
)
from ext_proc.transport.http2.limits import Bucket, Limits
from tests.ext_proc.http2.client import REQUEST, Client, block, data, headers

CALM: Final = ErrorCode.ENHANCE_YOUR_CALM
MANY: Final = 3_000

FLOODS: Final = {
    "ping": frame(PING, 0, 0, b"12345678"),
    "settings": frames.settings({}),
    "acknowledged settings": frames.SETTINGS_ACK,
    "priority": frame(PRIORITY, 0, 1, b"\0" * 5),
    "unknown type": frame(0x99, 0, 0, b""),
    "empty data": data(1, b""),
    "goaway": frame(frames.GOAWAY, 0, 0, b"\0" * 8),
}


@pytest.mark.parametrize("name", FLOODS)
def test_a_flood_of_frames_that_ask_for_nothing_ends_the_connection(name: str) -> None:
    client = Client()
    client.say(headers(1), FLOODS[name] * MANY)
    assert client.goaway() is CALM
    assert client.connection.streams == {}


def test_window_updates_one_byte_at_a_time_are_a_flood() -> None:
    client = Client()
    client.say(headers(1), frame(WINDOW_UPDATE, 0, 1, U32.pack(1)) * 10 * MANY)
    assert client.goaway() is CALM


def test_a_stream_whose_fault_is_one_too_many_is_told_as_well() -> None:
    client = Client(Limits(idle_frames=10, idle_frames_per_second=0.0))
    client.say(headers(1), FLOODS["ping"] * 8, frame(WINDOW_UPDATE, 0, 1, U32.pack(0)))
    assert client.goaway() is CALM
    assert client.seen.names() == ["opened", "gone"]


def test_a_flood_that_is_spread_over_time_is_none() -> None:
    client = Client()
    for second in range(60):
        client.now = float(second)
        client.say(FLOODS["ping"] * 100)
    assert client.goaway() is None


def test_rapid_resets_end_the_connection() -> None:
    client = Client()
    for number in range(1, 2 * 5_000, 2):
        client.say(headers(number), frame(RST_STREAM, 0, number, U32.pack(8)))
    assert client.goaway() is CALM


def test_resets_at_the_pace_of_clients_that_leave_are_fine() -> None:
    client = Client()
    for number in range(1, 2 * 20_000, 2):
        client.now = number / 2 / 900
        client.say(headers(number), frame(RST_STREAM, 0, number, U32.pack(8)))
    assert client.goaway() is None


def test_a_flood_of_continuations_ends_the_connection() -> None:
    client = Client()
    client.say(headers(flags=0), frame(CONTINUATION, 0, 1, b"") * 100)
    assert client.goaway() is CALM


def test_a_header_block_without_end_is_held_up_to_the_bound() -> None:
    client = Client(Limits(max_header_block_bytes=10_000))
    client.say(frame(HEADERS, 0, 1, b"x" * 9_000), frame(CONTINUATION, 0, 1, b"x" * 2_000))
    assert client.goaway() is CALM


def test_a_header_block_in_one_frame_has_the_same_bound() -> None:
    client = Client(Limits(max_header_block_bytes=10_000))
    client.say(frame(HEADERS, END_HEADERS, 1, b"\x20" * 10_001))
    assert client.goaway() is CALM


def test_nothing_of_what_was_said_is_held_behind_the_end() -> None:
    client = Client(Limits(max_header_block_bytes=10_000))
    client.say(frame(HEADERS, 0, 1, b"x" * 9_000), frame(CONTINUATION, 0, 1, b"x" * 2_000), b"rest")
    assert (client.connection._block, client.connection._rest) == (None, b"")


def test_an_hpack_bomb_is_not_unpacked() -> None:
    """One large field in the table, named by one byte a thousand times."""
    client = Client()
    bomb = block() + b"\x40\x01x\x7f\x81\x1e" + b"y" * 4_000 + b"\xbe" * 1_000
    client.say(frame(HEADERS, END_HEADERS, 1, bomb))
    assert client.goaway() is CALM


def test_a_header_list_just_under_the_bound_passes() -> None:
    client = Client(Limits(max_header_list_bytes=2_000))
    size = sum(len(n) + len(v) + 32 for n, v in REQUEST)
    client.say(headers(1, (*REQUEST, ("x", "y" * (2_000 - size - 33)))))
    assert client.seen.names() == ["opened"]


def test_streams_past_the_bound_are_refused() -> None:
    client = Client(Limits(max_concurrent_streams=3))
    client.say(*(headers(n) for n in (1, 3, 5, 7)))
    assert client.resets() == {7: ErrorCode.REFUSED_STREAM}


def test_what_is_remembered_of_reset_streams_is_bounded() -> None:
    client = Client(Limits(idle_frames=100_000))
    for number in range(1, 20_000, 2):
        client.say(headers(number))
        client.connection.reset(client.stream(number), ErrorCode.CANCEL)
    assert len(client.connection._reset_by_us) <= 1024


def test_a_bucket_refills_to_its_size() -> None:
    bucket = Bucket(2, 1.0)
    assert [bucket.take(0.0), bucket.take(0.0), bucket.take(0.0)] == [True, True, False]
    assert [bucket.take(100.0), bucket.take(100.0), bucket.take(100.0)] == [True, True, False]
