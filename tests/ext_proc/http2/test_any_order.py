"""Calls, and requests that are told no, on one connection in any order: each has one end, and nothing of it stays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from hypothesis import given
from hypothesis import strategies as st

from ext_proc.transport.http2 import frames
from ext_proc.transport.http2.frames import (
    DATA,
    END_HEADERS,
    END_STREAM,
    HEADERS,
    RST_STREAM,
    U32,
    WINDOW_UPDATE,
    ErrorCode,
    Setting,
    frame,
)
from tests.ext_proc.http2.client import REQUEST, Fields, Frame, data, frames_of, headers
from tests.ext_proc.http2.test_grpc_rules import PLAIN, Talk, changed, prefixed

WIDE: Final = 1 << 20
TOLD_NO: Final = (PLAIN, changed(method="PUT"), ((":method", "HEAD"), *PLAIN[1:]))
KINDS: Final[tuple[Fields, ...]] = (*TOLD_NO, REQUEST, changed(path="/other"))
PARTS: Final = (b"", prefixed(b"x"), prefixed(b"boom"), 3 * prefixed(b"x" * 99), prefixed(b"half")[:7])
STEP: Final = st.tuples(st.integers(0, 7), st.integers(0, 9), st.booleans())
SIZES: Final = (0, 1, 60, WIDE)


class Client:
    """Keeps to the rules. `open` are streams that it may still say something on, by their kind."""

    def __init__(self) -> None:
        self.talk = Talk()
        self.heard: list[Frame] = []
        self.open: dict[int, int] = {}
        self.kinds: dict[int, int] = {}
        self.left: set[int] = set()
        self.steps: tuple[Callable[[int, bool], None], ...] = (
            *(self.begin, self.begin, self.says, self.says),
            *(self.ends, self.leaves, self.opens, self.resizes),
        )

    def say(self, said: bytes) -> None:
        self.talk.connection.receive(said, 0.0)
        self.heard += frames_of(self.talk.connection.sender.take())

    def begin(self, number: int, end: bool) -> None:
        stream = 2 * len(self.kinds) + 1
        kind = self.kinds[stream] = number % len(KINDS)
        if not end:
            self.open[stream] = kind
        self.say(headers(stream, KINDS[kind], flags=END_HEADERS | (END_STREAM if end else 0)))

    def some(self, number: int) -> int | None:
        return list(self.open)[number % len(self.open)] if self.open else None

    def says(self, number: int, end: bool) -> None:
        if (stream := self.some(number)) is not None:
            self.say(data(stream, PARTS[number % len(PARTS)], end=end))
            if end:
                del self.open[stream]

    def ends(self, number: int, _: bool) -> None:
        if (stream := self.some(number)) is not None:
            del self.open[stream]
            self.say(headers(stream, (("x", "y"),), flags=END_HEADERS | END_STREAM))

    def leaves(self, number: int, _: bool) -> None:
        if (stream := self.some(number)) is not None:
            del self.open[stream]
            self.left.add(stream)
            self.say(frame(RST_STREAM, 0, stream, U32.pack(8)))

    def opens(self, number: int, all_of_them: bool) -> None:
        stream = 0 if all_of_them else self.some(number)
        if stream is not None:
            self.say(frame(WINDOW_UPDATE, 0, stream, U32.pack(1 + number * 30)))

    def resizes(self, number: int, _: bool) -> None:
        self.say(frames.settings({Setting.INITIAL_WINDOW_SIZE: SIZES[number % len(SIZES)]}))

    def of(self, stream: int, kind: int) -> list[Frame]:
        return [one for one in self.heard if (one.stream_id, one.kind) == (stream, kind)]


@given(st.lists(STEP, max_size=40))
def test_each_stream_has_one_end_nothing_of_it_stays_and_a_no_is_followed_by_no_reset(
    steps: list[tuple[int, int, bool]],
) -> None:
    client = Client()
    for what, number, yes in steps:
        client.steps[what](number, yes)
    client.resizes(SIZES.index(WIDE), True)
    while client.open:
        client.ends(0, True)
    connection = client.talk.connection
    assert (connection.fault, connection.streams, connection.sender.waiting_bytes) == (None, {}, 0)
    for stream, kind in client.kinds.items():
        ends = [one for one in (*client.of(stream, HEADERS), *client.of(stream, DATA)) if one.flags & END_STREAM]
        assert len(ends) == 1 or stream in client.left
        codes = [one.code for one in client.of(stream, RST_STREAM)]
        assert codes == [] if kind < len(TOLD_NO) else codes in ([], [ErrorCode.NO_ERROR])
