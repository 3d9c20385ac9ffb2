"""What attacks cost: the connection ends with ENHANCE_YOUR_CALM, and what is held stays bounded."""

from __future__ import annotations

from typing import Final

import pytest

from ext_proc.transport.http2 import frames
from ext_proc.transport.http2.frames import (
    CONTINUATION,
    DATA,
    END_HEADERS,
    HEADERS,
    PADDED,
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
LIMITS: Final = Limits()
FEW_RESETS: Final = Limits(resets=500)

FLOODS: Final = {
    "ping": frame(PING, 0, 0, b"12345678"),
    "settings": frames.settings({}),
    "acknowledged settings": frames.SETTINGS_ACK,
    "priority": frame(PRIORITY, 0, 1, b"\0" * 5),
    "unknown type": frame(0x99, 0, 0, b""),
    "empty data": data(1, b""),
    "data of padding alone": frame(DATA, PADDED, 1, b"\2\0\0"),
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
    client = Client(FEW_RESETS)
    for number in range(1, 2 * 2 * FEW_RESETS.resets, 2):
        client.say(headers(number), frame(RST_STREAM, 0, number, U32.pack(8)))
    assert client.goaway() is CALM


def test_all_streams_that_may_be_open_may_be_reset_at_once() -> None:
    client = Client()
    for number in range(1, 2 * LIMITS.max_concurrent_streams, 2):
        client.say(headers(number))
    for number in range(1, 2 * LIMITS.max_concurrent_streams, 2):
        client.say(frame(RST_STREAM, 0, number, U32.pack(8)))
    assert client.goaway() is None


@pytest.mark.parametrize("ended", [False, True], ids=["open", "ended meanwhile"])
def test_a_stream_that_was_answered_may_be_reset_at_any_pace(ended: bool) -> None:
    """Envoy ends each ext_proc stream like that, also one whose end is on the line."""
    client = Client(FEW_RESETS)
    for number in range(1, 2 * 3 * FEW_RESETS.resets, 2):
        client.say(headers(number))
        client.connection.send_headers(client.stream(number), b"\x88", end=ended)
        client.say(frame(RST_STREAM, 0, number, U32.pack(8)))
    assert client.goaway() is None


def test_an_answer_excuses_one_reset() -> None:
    client = Client(FEW_RESETS)
    client.say(headers(1))
    client.connection.send_headers(client.stream(1), b"\x88", end=True)
    for _ in range(FEW_RESETS.resets + 2):
        client.say(frame(RST_STREAM, 0, 1, U32.pack(8)))
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


def answered(stream_windows: int, limits: Limits) -> Client:
    """A client whose windows let out nothing, with an open stream."""
    client = Client(limits)
    client.say(frames.settings({frames.Setting.INITIAL_WINDOW_SIZE: stream_windows}), headers(1), headers(3))
    client.answers()
    return client


def test_answers_that_nobody_reads_are_held_up_to_the_bound() -> None:
    client = answered(0, Limits(max_waiting_bytes=100_000))
    for _ in range(200):
        client.connection.send_data(client.stream(), b"x" * 1_000)
        if client.connection.closed:
            break
    assert client.goaway() is CALM
    assert client.seen.names(3) == ["opened", "gone"]
    assert client.connection.sender.waiting_bytes == 0


def test_small_answers_that_wait_cost_more_than_their_bytes() -> None:
    client = answered(0, Limits(max_waiting_bytes=100_000))
    for _ in range(500):
        client.connection.send_data(client.stream(), b"x")
    assert client.goaway() is CALM


def test_what_left_is_no_longer_held() -> None:
    client = answered(10, Limits(max_waiting_bytes=100_000))
    for number in (1, 3) * 100:
        client.connection.send_data(client.stream(number), b"x" * 4_000)
        client.say(*(frame(WINDOW_UPDATE, 0, of, U32.pack(4_000)) for of in (number, 0)))
    assert client.goaway() is None
    client.connection.send_headers(client.stream(1), b"\x88", end=True)
    client.say(frame(RST_STREAM, 0, 3, U32.pack(8)))
    assert (client.connection.sender.waiting_bytes, client.connection.streams) == (0, {})


def test_an_answer_that_nobody_reads_for_long_ends_its_stream() -> None:
    client = answered(10, Limits(stuck_seconds=30.0, quiet_seconds=1e9))
    client.connection.send_data(client.stream(1), b"x" * 30)
    client.connection.send_data(client.stream(3), b"x" * 30)
    for second in range(0, 50, 5):
        client.connection.tick(float(second))
        client.say(frame(WINDOW_UPDATE, 0, 3, U32.pack(1)))  # slow, but it reads
    assert client.resets() == {1: CALM}
    assert client.seen.names(1) == ["opened", "gone"]
    assert set(client.connection.streams) == {3}


def test_an_answer_that_grows_is_as_stuck_as_one_that_does_not() -> None:
    client = answered(0, Limits(stuck_seconds=30.0, quiet_seconds=1e9))
    for second in range(0, 40, 5):
        client.connection.send_data(client.stream(1), b"x")
        client.connection.tick(float(second))
    assert client.resets() == {1: CALM}


def test_a_quiet_client_is_asked_and_one_that_answers_stays() -> None:
    client = Client(Limits(quiet_seconds=30.0, answer_seconds=20.0))
    client.now = 100.0
    client.say(headers(1))
    for second in range(100, 300, 5):
        client.connection.tick(float(second))
        for asked in [one for one in client.answers() if one.kind == PING]:
            client.now = second + 1.0
            client.say(frame(PING, frames.ACK, 0, asked.payload))
    assert not client.connection.closed


def test_a_client_that_vanished_is_let_go() -> None:
    client = Client(Limits(quiet_seconds=30.0, answer_seconds=20.0))
    client.now = 100.0
    client.say(headers(1))
    for second in (120, 130, 135, 149):
        client.connection.tick(float(second))
    assert [one.kind for one in client.answers()] == [PING]
    client.connection.tick(150.0)
    assert client.goaway() is ErrorCode.NO_ERROR
    assert client.seen.names() == ["opened", "gone"]


def windows(*sizes: int) -> bytes:
    return frame(frames.SETTINGS, 0, 0, b"".join(frames.SETTING.pack(4, size) for size in sizes))


def blocked(streams: int, *, window: int) -> Client:
    """A client whose streams each have an answer that waits for a window."""
    client = Client()
    client.say(windows(window))
    for number in range(1, 2 * streams, 2):
        client.say(headers(number))
        client.connection.send_data(client.stream(number), b"x" * 100)
    client.answers()
    return client


def counted(client: Client, monkeypatch: pytest.MonkeyPatch, name: str) -> list[object]:
    """Each call of a method of the sender, from now on."""
    calls: list[object] = []
    real = getattr(client.connection.sender, name)

    def told(*of: object) -> object:
        calls.append(of)
        return real(*of)

    monkeypatch.setattr(client.connection.sender, name, told)
    return calls


def test_a_frame_of_many_settings_costs_each_of_them() -> None:
    client = Client(Limits(max_frame_bytes=1 << 17))
    client.say(windows(*[65_535] * MANY))
    assert client.goaway() is CALM


def test_windows_that_change_many_times_in_a_frame_change_once(monkeypatch: pytest.MonkeyPatch) -> None:
    client = blocked(50, window=0)
    calls = counted(client, monkeypatch, "resized")
    client.say(windows(*[1, 2] * 100, 7))
    assert len(calls) == 1
    assert [len(part.payload) for part in client.answers() if part.kind == DATA] == [7] * 50


def test_changing_the_windows_of_many_streams_again_and_again_is_a_flood() -> None:
    client = blocked(500, window=0)
    for number in range(LIMITS.idle_frames // 5):
        client.say(windows(number & 1))
    assert client.goaway() is CALM


def test_a_window_of_the_connection_costs_nothing_for_those_who_wait_for_their_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    client = blocked(50, window=0)
    calls = counted(client, monkeypatch, "_flush")
    client.say(frame(WINDOW_UPDATE, 0, 0, U32.pack(1)) * 100)
    assert calls == []
    client.say(frame(WINDOW_UPDATE, 0, 5, U32.pack(100)))
    assert [(part.stream_id, len(part.payload)) for part in client.answers()] == [(5, 100)]


def test_streams_share_the_window_of_the_connection_as_it_opens() -> None:
    client = blocked(700, window=1_000)
    assert sum(one.stream_id for one in client.answers()) == 0
    waiting = len(client.connection.sender.blocked)
    assert 0 < waiting < 700
    client.say(frame(WINDOW_UPDATE, 0, 0, U32.pack(100 * waiting)))
    assert client.connection.sender.blocked == ()
    assert client.connection.sender.waiting_bytes == 0


def test_a_last_stream_that_was_told_does_not_grow() -> None:
    client = Client()
    client.connection.refuse_more()
    client.say(headers(1), headers(3), headers(2))
    told = [int.from_bytes(part.payload[:4], "big") for part in client.answers() if part.kind == frames.GOAWAY]
    assert told == [0, 0]


def test_an_answer_that_moves_is_not_stuck_though_as_much_is_added_to_it() -> None:
    client = blocked(1, window=0)
    for second in range(1, 120):
        client.now = float(second)
        client.connection.send_data(client.stream(1), b"x" * 100)
        client.say(frame(WINDOW_UPDATE, 0, 1, U32.pack(100)))
        client.connection.tick(client.now)
    assert client.resets() == {}


def test_a_bucket_refills_to_its_size() -> None:
    bucket = Bucket(2, 1.0)
    assert [bucket.take(0.0), bucket.take(0.0), bucket.take(0.0)] == [True, True, False]
    assert [bucket.take(100.0), bucket.take(100.0), bucket.take(100.0)] == [True, True, False]
