"""Fuzzes the HTTP/2 half of ext_proc: `python -m tests.fuzz.fuzz_frames --count 1000000 --seed 7`.

A conversation is frames as a client sends them: right ones, of which it is known what they mean, or some with parts
broken; both are cut into pieces anywhere. Whatever comes, nothing but GOAWAY ends the connection, what is said is
legal HTTP/2 and in proportion to what was heard, what is held stays within its bounds, and afterwards nobody is left
who was not told. Of right ones every body arrives as it was sent, and every answer within its windows.
A failure is printed with its seed and number, and the exit status is 1.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import resource
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Final

from grpc import StatusCode
from rich.console import Console
from rich.progress import Progress

from ext_proc.transport.grpc_calls import Call, Calls
from ext_proc.transport.http2.connection import Connection
from ext_proc.transport.http2.limits import Limits
from ext_proc.transport.http2.sending import waiting_bytes
from tests.fuzz.conversation import ENDS_THE_CALL, LATE, PATH, Frame, Speaker, Talk, broken, bytes_of
from tests.fuzz.heard import Heard

TIGHT: Final = Limits(
    max_concurrent_streams=8,
    max_frame_bytes=16_384,
    stream_window_bytes=2_000,
    connection_window_bytes=70_000,
    max_buffered_bytes=3_000,
    max_waiting_bytes=6_000,
    max_header_block_bytes=1_000,
    max_header_list_bytes=2_000,
    idle_frames=60,
    resets=20,
)
ROOMY: Final = replace(
    TIGHT, max_concurrent_streams=32, max_buffered_bytes=30_000, max_waiting_bytes=60_000, idle_frames=200
)
"""For right conversations, which break none of these."""
RIGHT: Final = 0.3
MOST_SAID: Final = 2_000
SAID_PER_BYTE: Final = 40
"""Of output for a byte of input: a message of 6 bytes is answered by 64, any frame by a reset of 13."""
MOST_TABLE: Final = 4_096
MOST_FAILURES: Final = 10
HANGS_AFTER_SECONDS: Final = 5.0


class Echo:
    """Answers each message with its reverse: at once, later, or for the last time."""

    def __init__(self, call: Call, world: World) -> None:
        self._call, self._world = call, world
        self._heard = world.heard.setdefault(call.stream.id, [])
        self._late: list[bytes] = []
        self._open, self._half_closed = True, False
        world.open += 1

    def message(self, pieces: list[bytes | memoryview]) -> None:
        message = b"".join(pieces)
        self._heard.append(message)
        if message[:1] == LATE:
            self._late.append(message)
            self._world.late.append(self.answer)
            return
        self._call.send(message[::-1])
        if message[:1] == ENDS_THE_CALL:
            self._call.finish(StatusCode.INTERNAL, "as told")
            self.gone()

    def answer(self) -> None:
        self._call.send(self._late.pop()[::-1])
        self._end()

    def half_closed(self) -> None:
        self._half_closed = True
        self._end()

    def gone(self) -> None:
        if self._open:
            self._open = False
            self._world.open -= 1

    def _end(self) -> None:
        if self._half_closed and not self._late and self._open:
            self._call.finish()
            self.gone()


class World:
    """A server's connection, and everything that it told or set."""

    def __init__(self, limits: Limits) -> None:
        self.open = 0
        self.heard: dict[int, list[bytes]] = {}
        self.late: list[Callable[[], None]] = []
        self.timers: dict[int, Callable[[], None]] = {}
        self.limits = limits
        self.calls = Calls(
            {PATH: lambda call: Echo(call, self)},
            self._after,
            lambda: None,
            max_message_bytes=1_000,
            max_buffered_bytes=limits.max_buffered_bytes,
        )
        self.connection = self.calls.connection = Connection(self.calls, limits)

    def _after(self, _: float, callback: Callable[[], None]) -> Callable[[], object]:
        number = len(self.timers) + 1
        while number in self.timers:
            number += 1
        self.timers[number] = callback
        return lambda: self.timers.pop(number, None)

    def stir(self, choose: random.Random, *, deadlines: bool) -> None:
        """What happens by itself: a late answer comes, a deadline passes."""
        if self.late and choose.random() < 0.5:
            self.late.pop(choose.randrange(len(self.late)))()
        if deadlines and choose.random() < 0.02:
            self.connection.tick(choose.choice((1.0, 31.0, 62.0)))
        if deadlines and self.timers and choose.random() < 0.1:
            self.timers.pop(choose.choice(tuple(self.timers)))()

    def check_bounds(self) -> None:
        """What is held stays below what `limits` allow."""
        connection, limits = self.connection, self.limits
        assert self.calls._buffered <= limits.max_buffered_bytes, "more is held of messages than may be"
        assert len(connection._rest) <= limits.max_frame_bytes + 9, "more is held than a frame"
        block = connection._block
        assert block is None or len(block.bytes) <= limits.max_header_block_bytes, "a block too long"
        assert connection.sender.waiting_bytes <= limits.max_waiting_bytes, "more waits to be read than may"
        waiting = sum(map(waiting_bytes, connection.streams.values()))
        assert connection.sender.waiting_bytes == waiting, "the account of what waits is wrong"
        assert len(connection.streams) <= limits.max_concurrent_streams, "too many streams"
        assert connection._headers._decoder.header_table._current_size <= MOST_TABLE, "a table too large"

    def check_left(self) -> None:
        """Nothing is left of a connection that is lost."""
        readings = [one.call.reading for one in self.connection.streams.values() if one.call is not None]
        held = [one.have for one in readings if one is not None]
        assert self.calls._buffered == sum(held), "the account of what is held is wrong"
        self.connection.lost()
        connection = self.connection
        left = (self.open, self.timers, connection.streams, self.calls._buffered)
        assert left == (0, {}, {}, 0), f"left behind: {left}"
        assert (connection.sender.blocked, connection._closing) == ((), {}), "streams wait for a client that is gone"


def one(choose: random.Random) -> str:
    """A conversation and how it ended. Raises AssertionError, or whatever the connection raised."""
    right = choose.random() < RIGHT
    talk = Speaker(choose).speak()
    said = talk.frames if right else broken(choose, talk.frames)
    world, heard = World(ROOMY if right else TIGHT), Heard(exact=right)
    _converse(choose, world, heard, bytes_of(choose, said, right=right), said)
    if right:
        _check_right(talk, world, heard)
    world.check_left()
    fault = world.connection.fault
    return "right" if right else fault.code.name if fault else "open"


def _converse(choose: random.Random, world: World, heard: Heard, pieces: list[bytes], said: list[Frame]) -> None:
    connection, received, sent = world.connection, 0, 0
    grants = _grants(said) if heard.exact else iter(())
    due = next(grants, None)
    for at, piece in enumerate(pieces):
        received += len(piece)
        while due is not None and due[0] <= received:
            heard.grant(due[1])
            due = next(grants, None)
        connection.receive(piece, at / 100)
        world.check_bounds()
        world.stir(choose, deadlines=not heard.exact)
        sent += _listen(world, heard)
        assert sent <= MOST_SAID + SAID_PER_BYTE * received, f"{sent} bytes said for {received}"
    while world.late:
        world.late.pop()()
    _listen(world, heard)


def _listen(world: World, heard: Heard) -> int:
    raw = world.connection.sender.take()
    heard.hear(raw)
    assert (heard.goaway is not None) is world.connection.closed, "closed without a word, or open behind an error"
    return len(raw)


def _grants(said: list[Frame]) -> Iterator[tuple[int, Frame]]:
    """Each frame with where it ends, counted in bytes from the begin of the connection."""
    end = 24 + 9 + 9
    for frame in said:
        end += 9 + len(frame.payload)
        yield end, frame


def _check_right(talk: Talk, world: World, heard: Heard) -> None:
    assert heard.goaway is None, f"a right conversation ended with {world.connection.fault!r}"
    for stream, sent in talk.messages.items():
        ends = [at for at, message in enumerate(sent) if message[:1] == ENDS_THE_CALL]
        taken = sent[: ends[0] + 1] if ends else sent
        assert world.heard.get(stream, []) == taken, f"{stream} heard other messages than were sent"
        if stream in talk.ended:
            assert heard.status[stream] == (b"13" if ends else b"0"), f"{stream} ended with {heard.status[stream]!r}"
            if not ends:
                assert sorted(_messages(heard.bodies[stream])) == sorted(message[::-1] for message in taken)


def _messages(body: bytes) -> Iterator[bytes]:
    while body:
        size = int.from_bytes(body[1:5], "big")
        yield body[5 : 5 + size]
        body = body[5 + size :]


def run(
    count: int, seed: int, *, first: int = 0, told: Callable[[int], None] = lambda _: None
) -> tuple[Counter[str], list[str]]:
    """How `count` conversations ended, and the failures. Each has a seed of its own: `seed`, and its number."""
    ends: Counter[str] = Counter()
    failures: list[str] = []
    for at in range(first, first + count):
        try:
            ends[one(random.Random(f"{seed} {at}"))] += 1
        except Exception:  # noqa: BLE001 - whatever it is, it is the finding
            failures.append(f"{traceback.format_exc()}\n--seed {seed} --first {at} --count 1")
        if at % 500 == 0:
            told(at - first)
    return ends, failures


@contextlib.contextmanager
def no_hangs(told: Callable[[int], None]) -> Iterator[Callable[[int], None]]:
    """Raises TimeoutError in whatever spends more than some seconds of CPU between two words to `told`."""

    def hangs(*_: Any) -> None:
        raise TimeoutError(f"no end within {HANGS_AFTER_SECONDS:.0f} s of CPU")

    def alive(at: int) -> None:
        signal.setitimer(signal.ITIMER_VIRTUAL, HANGS_AFTER_SECONDS)
        told(at)

    before = signal.signal(signal.SIGVTALRM, hangs)
    try:
        alive(0)
        yield alive
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def main() -> int:
    """Run, report, and exit with 1 when there is a failure."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--count", type=int, default=100_000)
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--first", type=int, default=0, help="the number of the first conversation")
    options = arguments.parse_args()
    began = time.process_time()
    with Progress(*Progress.get_default_columns(), "{task.completed}") as progress:
        task = progress.add_task("conversations", total=options.count)
        with no_hangs(lambda at: progress.update(task, completed=at)) as alive:
            ends, failures = run(options.count, options.seed, first=options.first, told=alive)
    seconds = time.process_time() - began
    say = Console().print
    say(f"{options.count} conversations, seed {options.seed}: {dict(sorted(ends.items()))}, {len(failures)} failures")
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    say(f"{options.count / seconds:.0f} a second of CPU, {seconds:.0f} s in all; at most {peak_mib:.0f} MiB resident")
    for failure in failures[:MOST_FAILURES]:
        say(f"FAILURE\n{failure}", markup=False)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
