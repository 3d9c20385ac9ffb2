"""Against the client half of the library `h2`: whatever the order, every call gets its answers and nothing is left."""

from __future__ import annotations

import random
from collections.abc import Callable
from struct import pack
from typing import Final

import h2.config
import h2.connection
import h2.events
from h2.settings import SettingCodes
from hypothesis import given, settings
from hypothesis import strategies as st

from ext_proc.transport.grpc_calls import Call, Calls
from ext_proc.transport.http2.connection import Connection
from ext_proc.transport.http2.limits import Limits
from tests.ext_proc.http2.client import REQUEST

LIMITS: Final = Limits(
    max_concurrent_streams=12,
    stream_window_bytes=20_000,
    connection_window_bytes=70_000,
    max_buffered_bytes=200_000,
    max_frame_bytes=16_384,
)
MOST_MESSAGE_BYTES: Final = 15_000
PATH: Final = b"/service/Method"
SETTINGS: Final = {
    SettingCodes.INITIAL_WINDOW_SIZE: (0, 1, 1_000, 65_535, 1 << 20),
    SettingCodes.MAX_FRAME_SIZE: (16_384, 20_000),
    SettingCodes.HEADER_TABLE_SIZE: (0, 4_096),
}


class Echo:
    """Answers a message with its reverse, twice; one that begins with `l` once the world says so."""

    def __init__(self, call: Call, world: World) -> None:
        self._call, self._world = call, world
        world.methods += 1
        self._half_closed = False
        self._late: list[bytes] = []

    def message(self, pieces: list[bytes | memoryview]) -> None:
        data = b"".join(pieces)
        answer = data[::-1] * 2
        if data[:1] == b"l":
            self._late.append(answer)
            self._world.late.append(self.answer)
        else:
            self._call.send(answer)

    def answer(self) -> None:
        if self._late:
            self._call.send(self._late.pop(0))
        self._end()

    def half_closed(self) -> None:
        self._half_closed = True
        self._end()

    def gone(self) -> None:
        self._world.gone += 1

    def _end(self) -> None:
        if self._half_closed and not self._late:
            self._call.finish()


class World:
    """Both ends of a connection, and the bytes between them."""

    def __init__(self, choose: random.Random) -> None:
        self.choose = choose
        self.late: list[Callable[[], None]] = []
        self.methods = self.gone = self.timers = 0
        self.calls = Calls(
            {PATH: lambda call: Echo(call, self)},
            self._after,
            lambda: None,
            max_message_bytes=MOST_MESSAGE_BYTES,
            max_buffered_bytes=LIMITS.max_buffered_bytes,
        )
        self.server = self.calls.connection = Connection(self.calls, LIMITS)
        config = h2.config.H2Configuration(client_side=True, header_encoding=None)
        self.client = h2.connection.H2Connection(config)
        self.client.initiate_connection()
        self.open: dict[int, bytes] = {}
        self.sent: dict[int, list[bytes]] = {}
        self.got: dict[int, bytes] = {}
        self.status: dict[int, bytes] = {}
        self.reset: set[int] = set()
        self.unread: list[tuple[int, int]] = []
        self.changing = True  # the settings of its preface

    def _after(self, seconds: float, callback: Callable[[], None]) -> Callable[[], object]:
        self.timers += 1

        def cancel() -> None:
            self.timers -= 1

        return cancel

    # What a client does.

    def call(self) -> None:
        if len(self.open) >= LIMITS.max_concurrent_streams - 2 or self.client.open_outbound_streams >= 10:
            return
        number = self.client.get_next_available_stream_id()
        timeout = [("grpc-timeout", "100S")] if self.choose.random() < 0.5 else []
        self.client.send_headers(number, [*REQUEST[:2], (":path", PATH.decode()), *REQUEST[3:], *timeout])
        messages = [self._message() for _ in range(self.choose.randrange(3))]
        self.sent[number], self.got[number] = messages, b""
        self.open[number] = b"".join(pack(">BI", 0, len(one)) + one for one in messages)

    def _message(self) -> bytes:
        size = self.choose.choice((1, 5, 300, 9_000, MOST_MESSAGE_BYTES))
        return self.choose.choice((b"l", b"n")) + self.choose.randbytes(size - 1)

    def speak(self) -> None:
        """A part of somebody's body, or its end."""
        if not self.open:
            return
        number = self.choose.choice(tuple(self.open))
        rest = self.open[number]
        padding = self.choose.choice((None, None, 0, 7, 255))
        extra = 0 if padding is None else padding + 1
        room = min(self.client.local_flow_control_window(number), self.client.max_outbound_frame_size) - extra
        size = min(len(rest), room, self.choose.choice((0, 1, 4, 100, 16_384)))
        if size < 0:
            return
        end = size == len(rest)
        self.client.send_data(number, rest[:size], end_stream=end, pad_length=padding)
        self.open[number] = rest[size:]
        if end:
            del self.open[number]

    def hang_up(self) -> None:
        alive = [number for number in self.sent if number not in self.status and number not in self.reset]
        if alive:
            number = self.choose.choice(alive)
            self.client.reset_stream(number)
            self.reset.add(number)
            self.open.pop(number, None)

    def change(self) -> None:
        """One at a time: h2 takes the first acknowledgement for all that it sent."""
        if self.changing:
            return
        key = self.choose.choice(tuple(SETTINGS))
        self.client.update_settings({key: self.choose.choice(SETTINGS[key])})
        self.changing = True

    def ping(self) -> None:
        self.client.ping(b"12345678")

    def read_up(self) -> None:
        """Windows open for what was read; a late answer is given."""
        for number, size in self.unread:
            self.client.acknowledge_received_data(size, number)
        self.unread.clear()

    def answer_late(self) -> None:
        if self.late:
            self.late.pop(self.choose.randrange(len(self.late)))()

    def exchange(self) -> None:
        """Bytes move, cut anywhere."""
        data = self.client.data_to_send()
        while data:
            size = self.choose.choice((1, 9, 10, 1_000, 70_000)) if len(data) < 3_000 else 70_000
            self.server.receive(data[:size], 0.0)
            data = data[size:]
        self.hear()

    def hear(self) -> None:
        """Frame by frame: h2 goes by its new largest frame from the next bytes on, not from the acknowledgement."""
        assert self.server.fault is None
        raw = self.server.sender.take() if self.server.sender.has_output else b""
        while raw:
            size = 9 + int.from_bytes(raw[:3], "big")
            self._heard(self.client.receive_data(raw[:size]))
            raw = raw[size:]

    def _heard(self, events: list[h2.events.Event]) -> None:
        for event in events:
            if isinstance(event, h2.events.DataReceived):
                self.got[event.stream_id] += event.data
                if event.flow_controlled_length:
                    self.unread.append((event.stream_id, event.flow_controlled_length))
            elif isinstance(event, h2.events.TrailersReceived | h2.events.ResponseReceived) and event.stream_ended:
                self.status[event.stream_id] = dict(event.headers)[b"grpc-status"]
            elif isinstance(event, h2.events.SettingsAcknowledged):
                self.changing = False
            elif isinstance(event, h2.events.StreamReset):
                raise AssertionError(event)

    def settle(self) -> None:
        """Everybody says the rest and reads all."""
        self.exchange()
        assert not self.changing
        self.client.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: 65_535})
        for _ in range(4_000):
            for _ in range(4):
                self.speak()
            self.answer_late()
            self.read_up()
            self.exchange()
            if not self.open and not self.late and not self.unread and not self.server.streams:
                return
        raise AssertionError("it never settles")


STEPS: Final = (
    World.call, World.call, World.speak, World.speak, World.speak, World.speak, World.exchange, World.exchange,
    World.hang_up, World.change, World.ping, World.read_up, World.answer_late,
)  # fmt: skip


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32), st.lists(st.sampled_from(STEPS), min_size=5, max_size=150))
def test_every_call_gets_its_answers_and_nothing_is_left(seed: int, steps: list[Callable[[World], None]]) -> None:
    world = World(random.Random(seed))
    world.exchange()
    for step in steps:
        step(world)
    world.settle()
    for number, messages in world.sent.items():
        if number not in world.reset:
            expected = sorted(one[::-1] * 2 for one in messages)
            assert (number, answers(world.got[number])) == (number, expected)
            assert world.status[number] == b"0"
    left = (world.server.streams, world.calls._buffered, world.timers, world.server._closing)
    assert (left, world.server.sender.blocked) == (({}, 0, 0, {}), ())
    assert world.gone <= len(world.reset)


def answers(data: bytes) -> list[bytes]:
    """The messages of an answer's body, sorted: late ones may come after those behind them."""
    found = []
    while data:
        size = int.from_bytes(data[1:5], "big")
        found.append(data[5 : 5 + size])
        data = data[5 + size :]
    return sorted(found)
