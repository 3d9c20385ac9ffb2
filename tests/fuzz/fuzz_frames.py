"""Fuzzes the HTTP/2 half of ext_proc: `python -m tests.fuzz.fuzz_frames --count 1000000 --seed 7`.

A conversation is frames as a client sends them, some of them mutated, cut into pieces anywhere. Whatever comes, nothing
but GOAWAY ends the connection, what is said stays in proportion to what was heard, and afterwards nobody is left who
was not told. A failure is printed with its seed, and the exit status is 1.
"""

from __future__ import annotations

import argparse
import random
import sys
import traceback
from collections.abc import Callable
from struct import pack
from typing import Final

from grpc import StatusCode
from hpack import Encoder
from rich.console import Console
from rich.progress import Progress

from ext_proc.transport.grpc_calls import Call, Calls
from ext_proc.transport.http2 import frames
from ext_proc.transport.http2.connection import Connection
from ext_proc.transport.http2.frames import PREFACE, frame
from ext_proc.transport.http2.limits import Limits

LIMITS: Final = Limits(
    max_concurrent_streams=8,
    max_frame_bytes=16_384,
    stream_window_bytes=2_000,
    connection_window_bytes=70_000,
    max_buffered_bytes=3_000,
    max_header_block_bytes=1_000,
    max_header_list_bytes=2_000,
    idle_frames=60,
    resets=20,
)
MOST_SAID: Final = 2_000
SAID_PER_BYTE: Final = 40
"""Of output for a byte of input: a message of 5 bytes is answered by 64, any frame by a reset of 13."""
MOST_FAILURES: Final = 10
PATH: Final = b"/s/M"
FIELDS: Final = (
    (":method", "POST"),
    (":scheme", "http"),
    (":path", PATH.decode()),
    ("content-type", "application/grpc"),
    ("te", "trailers"),
    ("grpc-timeout", "1S"),
    ("content-length", "7"),
    ("x-any", "y" * 50),
    ("", "z"),
    ("Upper", " bad"),
)
USUAL_KINDS: Final = (0, 0, 0, 0, 1, 1, 1, 2, 3, 4, 6, 8, 8, 7)
OF_THE_CONNECTION: Final = frozenset({frames.SETTINGS, frames.PING, frames.GOAWAY})
RIGHT: Final = 0.97
SHORT_BLOCKS: Final = (b"\x83\x86\x84", b"\xbe", b"\x82\x86\x84\x41\x8a\xff", b"\x20", b"\x3f\xe1\xff\x03", b"\xff" * 6)


class Echo:
    """Answers each message; a long one ends the call."""

    def __init__(self, call: Call, told: Told) -> None:
        self._call, self._told = call, told
        told.open += 1
        self._open = True

    def message(self, data: bytes | memoryview) -> None:
        self._call.send(b"answer" * 10)
        if len(data) > 100:
            self._call.finish(StatusCode.INTERNAL, "too long for me")
            self.gone()

    def half_closed(self) -> None:
        self._call.finish()
        self.gone()

    def gone(self) -> None:
        if self._open:
            self._open = False
            self._told.open -= 1


class Told:
    """Calls that were begun and not ended, and timers that were set and not cancelled."""

    def __init__(self) -> None:
        self.open = self.timers = 0

    def after(self, seconds: float, callback: Callable[[], None]) -> Callable[[], object]:
        self.timers += 1

        def cancel() -> None:
            self.timers -= 1

        return cancel


def conversation(choose: random.Random) -> list[bytes]:
    """What a client sends, in pieces."""
    encoder, said = Encoder(), [PREFACE, frames.settings({}), frames.SETTINGS_ACK]
    opened: list[int] = []
    said += [_one(choose, encoder, opened) for _ in range(choose.randrange(1, 40))]
    whole = b"".join(said)
    if choose.random() < 0.1:
        whole = whole[: choose.randrange(len(whole))] + choose.randbytes(choose.randrange(200))
    return _cut(choose, whole)


def _one(choose: random.Random, encoder: Encoder, opened: list[int]) -> bytes:
    """A frame: a right one mostly, else one with any type, flags and stream."""
    kind = choose.choice(USUAL_KINDS)
    if choose.random() < RIGHT:
        if not opened and kind not in OF_THE_CONNECTION:
            kind = frames.HEADERS
        stream, flags, payload = _right(choose, encoder, kind, opened)
        return frame(kind, flags, stream, payload)
    if choose.random() < 0.3:
        kind = choose.randrange(256)
    stream = choose.choice((0, 1, 3, 5, 7, 9, 11, 2, choose.randrange(1 << 31)))
    flags = choose.choice((0, 1, 4, 5, 4, 5, 8, 9, 12, 32, 36, choose.randrange(256)))
    made = frame(kind, flags, stream, _payload(choose, encoder, kind))
    return _mutated(choose, made) if choose.random() < 0.5 else made


def _right(choose: random.Random, encoder: Encoder, kind: int, opened: list[int]) -> tuple[int, int, bytes]:
    """Stream, flags and payload that suit the type, as far as one can tell without hearing the answers."""
    if kind == frames.HEADERS:
        opened.append(2 * len(opened) + 1)
        fields = [*FIELDS[: choose.choice((5, 5, 6, 7))], *FIELDS[7 : choose.choice((7, 8))]]
        return opened[-1], choose.choice((4, 4, 4, 5)), encoder.encode(fields)
    if kind in OF_THE_CONNECTION:
        payload = {frames.PING: b"12345678", frames.GOAWAY: b"\0" * 8}.get(kind)
        if payload is None and kind == frames.SETTINGS:
            payload = frames.SETTING.pack(choose.choice((1, 4, 6, 9)), choose.choice((0, 10, 1_000, 65_535)))
        return 0, 0, payload if payload is not None else b""
    stream = choose.choice(opened)
    if kind == frames.DATA:
        end, padded = choose.random() < 0.3, choose.random() < 0.2
        payload = _payload(choose, encoder, kind)
        return stream, int(end) | 8 * int(padded), b"\3" + payload + b"\0\0\0" if padded else payload
    return stream, 0, b"\0\0\0\1" + (b"\0" if kind == frames.PRIORITY else b"")


def _payload(choose: random.Random, encoder: Encoder, kind: int) -> bytes:
    if kind in {frames.HEADERS, frames.CONTINUATION}:
        if choose.random() < 0.2:
            return choose.choice(SHORT_BLOCKS) + choose.randbytes(choose.randrange(4))
        count = 5 if choose.random() < 0.7 else choose.randrange(len(FIELDS) + 1)
        return encoder.encode(list(FIELDS[:count])) if count else b""
    if kind == frames.DATA:
        size = choose.choice((0, 1, 50, 300, 70_000))
        body = pack(">BI", choose.choice((0, 0, 0, 1)), size) + choose.randbytes(min(size, 1_900))
        return body[: choose.choice((1, 4, 5, len(body), len(body)))]
    if kind == frames.SETTINGS:
        key, value = choose.randrange(1, 8), choose.choice((0, 1, 100, 16_384, 1 << 30, (1 << 32) - 1))
        return frames.SETTING.pack(key, value) * choose.choice((0, 1, 1, 3))
    return choose.choice((b"12345678", b"\0\0\0\1", b"\0\0\0\0\7", b"", choose.randbytes(choose.randrange(20))))


def _mutated(choose: random.Random, data: bytes) -> bytes:
    bent = bytearray(data)
    for _ in range(choose.randrange(1, 4)):
        bent[choose.randrange(len(bent))] = choose.randrange(256)
    return bytes(bent)


def _cut(choose: random.Random, data: bytes) -> list[bytes]:
    places = sorted(choose.randrange(len(data) + 1) for _ in range(choose.randrange(6)))
    return [data[a:b] for a, b in zip([0, *places], [*places, len(data)], strict=True) if a < b]


def check(pieces: list[bytes]) -> str:
    """How the connection ended. Raises AssertionError, or whatever the connection raised."""
    told = Told()
    calls = Calls(
        {PATH: lambda call: Echo(call, told)},
        told.after,
        lambda: None,
        max_message_bytes=1_000,
        max_buffered_bytes=LIMITS.max_buffered_bytes,
    )
    connection = calls.connection = Connection(calls, LIMITS)
    heard = said = 0
    for at, piece in enumerate(pieces):
        connection.receive(piece, at / 100)
        heard += len(piece)
        said += len(connection.sender.take())
        assert calls._buffered <= LIMITS.max_buffered_bytes, "more is held than may be"
        assert said <= MOST_SAID + SAID_PER_BYTE * heard, f"{said} bytes said for {heard}"
    held = [stream.call.reading.have for stream in connection.streams.values() if stream.call is not None]
    assert calls._buffered == sum(held), "the account of what is held is wrong"
    connection.lost()
    left = (
        told.open,
        told.timers,
        connection.streams,
        calls._buffered,
        connection.sender._blocked,
        connection._closing,
    )
    assert left == (0, 0, {}, 0, {}, {}), f"left behind: {left}"
    return connection.fault.code.name if connection.fault else "open"


def run(count: int, seed: int, progress: Progress | None = None) -> tuple[dict[str, int], list[str]]:
    """How `count` connections ended, and the failures. Each conversation has a seed of its own: `seed`, and its number."""
    task = progress.add_task("connections", total=count) if progress else None
    ends: dict[str, int] = {}
    failures: list[str] = []
    for at in range(count):
        pieces = conversation(random.Random(f"{seed} {at}"))
        try:
            end = check(pieces)
            ends[end] = ends.get(end, 0) + 1
        except Exception:  # noqa: BLE001 - whatever it is, it is the finding
            failures.append(f"{traceback.format_exc()}\n--seed {seed}, number {at}: {pieces!r}")
        if progress and task is not None and at % 1000 == 0:
            progress.update(task, completed=at)
    return ends, failures


def main() -> int:
    """Run, report, and exit with 1 when there is a failure."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--count", type=int, default=100_000)
    arguments.add_argument("--seed", type=int, default=1)
    options = arguments.parse_args()
    with Progress() as progress:
        ends, failures = run(options.count, options.seed, progress)
    say = Console().print
    say(f"{options.count} connections, {dict(sorted(ends.items()))}")
    for failure in failures[:MOST_FAILURES]:
        say(f"FAILURE\n{failure}", markup=False)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
