"""What a client says to an HTTP/2 server: right conversations, of which it is known what they mean, and broken ones."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from struct import pack
from typing import Final

from hpack import Encoder

from ext_proc.transport.http2 import frames
from ext_proc.transport.http2.frames import PREFACE, U32, Setting, frame

PATH: Final = b"/s/M"
FIELDS: Final = (
    (":method", "POST"),
    (":scheme", "http"),
    (":path", PATH.decode()),
    ("content-type", "application/grpc"),
    ("te", "trailers"),
    ("grpc-timeout", "1S"),
    ("x-any", "y" * 50),
    ("x-number", "7"),
)
ENDS_THE_CALL: Final = b"!"
"""The first byte of a message that the server ends its call for."""
LATE: Final = b"l"
"""The first byte of a message whose answer comes after what follows."""
MOST_STREAMS: Final = 12
MOST_STEPS: Final = 24
LONGEST_MESSAGE: Final = 400
LARGEST_BODY: Final = 1_900
FIRST_WINDOWS: Final = (0, 1, 40, 65_535)
BLOCKS: Final = (
    *(b"\x83\x86\x84", b"\xbe", b"\x82\x86\x84\x41\x8a\xff", b"\x20", b"\x3f\xe1\x1f", b"\x3f\xe1\xff\x03", b"\xff" * 6),
    *(b"\x83\x86\x84\x20", b"\x80", b"\xfe", b"\x00\x00\x00", b"\x40\x81\xff\x81\xff", b"\x83\x86\x84" + b"\xbe" * 90),
    b"\x83\x86\x84" + b"\x40\x01x\x7f\x81\x06" + b"y" * 896 + b"\xbe" * 60,
)  # fmt: skip


@dataclass
class Frame:
    """A frame that may be wrong in every part; `grants` is what it adds to a window, or the first window that it sets."""

    kind: int
    flags: int = 0
    stream: int = 0
    payload: bytes = b""
    claims: int | None = None
    """The length that its header tells, where that is not the truth."""

    def encode(self) -> bytes:
        """As it goes over the line."""
        made = frame(self.kind, self.flags & 0xFF, self.stream & 0xFFFF_FFFF, self.payload)
        return made if self.claims is None else (self.claims & 0xFF_FFFF).to_bytes(3, "big") + made[3:]


@dataclass
class Talk:
    """A conversation: its frames, and for each stream the messages that were sent whole, and how it ended."""

    frames: list[Frame] = field(default_factory=list)
    messages: dict[int, list[bytes]] = field(default_factory=dict)
    ended: set[int] = field(default_factory=set)
    reset: set[int] = field(default_factory=set)


class Speaker:
    """Says right things in any order. Bodies stay below the windows that the server opens first."""

    def __init__(self, choose: random.Random) -> None:
        self.choose, self.talk = choose, Talk()
        self._encoder = Encoder()
        self._rests: dict[int, bytes] = {}
        self._room: dict[int, int] = {}
        self._next = 1

    def speak(self) -> Talk:
        """A whole conversation. At its end every window is open and every stream has ended."""
        steps: tuple[Callable[[], None], ...] = (
            *(self._open, self._open, self._say, self._say, self._say, self._say, self._end, self._reset),
            *(self._ping, self._settings, self._update, self._of_no_interest),
        )
        self._settings()
        for _ in range(self.choose.randrange(1, MOST_STEPS)):
            self.choose.choice(steps)()
        while self._rests:
            self._end()
        self._add(Frame(frames.SETTINGS, 0, 0, frames.SETTING.pack(Setting.INITIAL_WINDOW_SIZE, 1 << 20)))
        self._add(Frame(frames.WINDOW_UPDATE, 0, 0, U32.pack(1 << 20)))
        return self.talk

    def _add(self, one: Frame) -> None:
        self.talk.frames.append(one)

    def _open(self) -> None:
        if len(self.talk.messages) >= MOST_STREAMS:
            return
        stream, self._next = self._next, self._next + self.choose.choice((2, 2, 2, 10))
        fields = list(FIELDS[: self.choose.choice((5, 5, 6, 7, 8))])
        sent = [self._message() for _ in range(self.choose.choice((0, 1, 1, 2)))]
        body = b"".join(pack(">BI", 0, len(one)) + one for one in sent)
        if self.choose.random() < 0.1:
            fields.append(("content-length", str(len(body))))
        self.talk.messages[stream], self._rests[stream], self._room[stream] = sent, body, LARGEST_BODY
        end = 0 if body or self.choose.random() < 0.5 else frames.END_STREAM
        if end:
            self._ended(stream)
        self._block(stream, self._encoder.encode(fields), end)

    def _message(self) -> bytes:
        size = self.choose.choice((1, 5, 60, LONGEST_MESSAGE))
        return self.choose.choice((b"m", b"m", b"m", LATE, ENDS_THE_CALL)) + self.choose.randbytes(size - 1)

    def _block(self, stream: int, block: bytes, flags: int) -> None:
        """HEADERS, padded or with a priority, and any number of CONTINUATION."""
        cuts = sorted(self.choose.randrange(len(block) + 1) for _ in range(self.choose.choice((0, 0, 0, 1, 3))))
        parts = [block[a:b] for a, b in zip([0, *cuts], [*cuts, len(block)], strict=True)]
        first, padding = parts[0], self.choose.choice((None, None, None, 0, 7))
        if self.choose.random() < 0.2:
            first, flags = b"\x80\0\0\0\x10" + first, flags | frames.PRIORITY_FLAG
        if padding is not None:
            first, flags = bytes((padding,)) + first + bytes(padding), flags | frames.PADDED
        for number, part in enumerate([first, *parts[1:]]):
            last = frames.END_HEADERS if number == len(parts) - 1 else 0
            self._add(Frame(frames.CONTINUATION if number else frames.HEADERS, last | flags, stream, part))
            flags = 0

    def _some(self) -> int | None:
        return self.choose.choice(tuple(self._rests)) if self._rests else None

    def _say(self) -> None:
        """A part of a body; its last part may end the stream."""
        if (stream := self._some()) is None:
            return
        rest, size = self._rests[stream], self.choose.choice((0, 1, 4, 6, 100, LARGEST_BODY))
        padding = self.choose.choice((None, None, None, 0, 9))
        part, self._rests[stream] = rest[:size], rest[size:]
        room = self._room[stream] - len(part) - (0 if padding is None else 1 + padding)
        if room < len(self._rests[stream]):
            padding = None
        self._room[stream] -= len(part) + (0 if padding is None else 1 + padding)
        end = not self._rests[stream] and self.choose.random() < 0.5
        self._data(stream, part, end=end, padding=padding)
        if end:
            self._ended(stream)

    def _data(self, stream: int, part: bytes, *, end: bool, padding: int | None = None) -> None:
        flags = frames.END_STREAM if end else 0
        if padding is None:
            self._add(Frame(frames.DATA, flags, stream, part))
        else:
            self._add(Frame(frames.DATA, flags | frames.PADDED, stream, bytes((padding,)) + part + bytes(padding)))

    def _end(self) -> None:
        """The rest of a body, and END_STREAM on it or on trailers."""
        if (stream := self._some()) is None:
            return
        if self.choose.random() < 0.3:
            self._data(stream, self._rests[stream], end=False)
            self._block(stream, self._encoder.encode([("x-last", "1")]), frames.END_STREAM)
        else:
            self._data(stream, self._rests[stream], end=True)
        self._ended(stream)

    def _ended(self, stream: int) -> None:
        del self._rests[stream]
        self.talk.ended.add(stream)

    def _reset(self) -> None:
        """Of what was being said only the whole messages count."""
        if (stream := self._some()) is None:
            return
        missing, sent = len(self._rests.pop(stream)), self.talk.messages[stream]
        while missing > 0 and sent:
            missing -= 5 + len(sent.pop())
        self.talk.reset.add(stream)
        self._add(Frame(frames.RST_STREAM, 0, stream, U32.pack(8)))

    def _ping(self) -> None:
        self._add(Frame(frames.PING, self.choose.choice((0, 0, frames.ACK)), 0, self.choose.randbytes(8)))

    def _settings(self) -> None:
        """Any settings; of first windows only those that leave every window legal."""
        said: list[tuple[int, int]] = []
        if self.choose.random() < 0.6:
            said.append((Setting.INITIAL_WINDOW_SIZE, self.choose.choice(FIRST_WINDOWS)))
        said += self.choose.sample(
            ((1, 0), (1, 4_096), (2, 0), (3, 100), (5, 16_384), (5, 70_000), (6, 900), (0x99, 7)), 2
        )
        self._add(Frame(frames.SETTINGS, 0, 0, b"".join(frames.SETTING.pack(*one) for one in said)))

    def _update(self) -> None:
        known = (0, *self.talk.messages)
        self._add(
            Frame(frames.WINDOW_UPDATE, 0, self.choose.choice(known), U32.pack(self.choose.choice((1, 50, 9_000))))
        )

    def _of_no_interest(self) -> None:
        stream = self.choose.choice((1, 3, 99))
        priority = Frame(frames.PRIORITY, 0, stream, b"\0\0\0\0\1")
        unknown = Frame(self.choose.randrange(10, 256), self.choose.randrange(256), self.choose.randrange(9), b"what")
        self._add(
            self.choose.choice(
                (priority, unknown, Frame(frames.SETTINGS, frames.ACK), Frame(frames.GOAWAY, 0, 0, bytes(8)))
            )
        )


# Breaking one.


def broken(choose: random.Random, said: list[Frame]) -> list[Frame]:
    """The frames with one to four things changed in them."""
    bent = list(said)
    for _ in range(choose.choice((1, 1, 2, 4))):
        choose.choice(_BREAKS)(choose, bent)
        if not bent:
            break
    return bent


def _other(choose: random.Random, said: list[Frame], **changed: object) -> None:
    at = choose.randrange(len(said))
    old = said[at]
    fields = {"kind": old.kind, "flags": old.flags, "stream": old.stream, "payload": old.payload, **changed}
    said[at] = Frame(**fields)  # type: ignore[arg-type]


def _kind(choose: random.Random, said: list[Frame]) -> None:
    _other(choose, said, kind=choose.choice((*range(10), choose.randrange(256))))


def _flags(choose: random.Random, said: list[Frame]) -> None:
    at = choose.randrange(len(said))
    said[at] = Frame(said[at].kind, said[at].flags ^ 1 << choose.randrange(8), said[at].stream, said[at].payload)


def _stream(choose: random.Random, said: list[Frame]) -> None:
    _other(choose, said, stream=choose.choice((0, 1, 2, 3, 5, 7, 21, 1 << 31, choose.randrange(1 << 32))))


def _length(choose: random.Random, said: list[Frame]) -> None:
    old = choose.choice(said)
    old.claims = choose.choice(
        (len(old.payload) + 1, len(old.payload) - 1, 0, 4, 16_384, 16_385, choose.randrange(1 << 24))
    )


def _payload(choose: random.Random, said: list[Frame]) -> None:
    """Some bytes of one payload; some more, or some less."""
    at = choose.randrange(len(said))
    bent = bytearray(said[at].payload)
    for _ in range(choose.randrange(1, 4) if bent else 0):
        bent[choose.randrange(len(bent))] = choose.randrange(256)
    end = choose.choice((len(bent), len(bent), choose.randrange(len(bent) + 1)))
    _replaced(said, at, bytes(bent[:end]) + choose.choice((b"", b"", choose.randbytes(choose.randrange(20)))))


def _replaced(said: list[Frame], at: int, payload: bytes) -> None:
    said[at] = Frame(said[at].kind, said[at].flags, said[at].stream, payload)


def _padding(choose: random.Random, said: list[Frame]) -> None:
    at = choose.randrange(len(said))
    length = choose.choice((0, 1, len(said[at].payload), len(said[at].payload) + 1, 255)) & 0xFF
    padded = bytes((length,)) + said[at].payload
    said[at] = Frame(said[at].kind, said[at].flags | frames.PADDED, said[at].stream, padded)


def _twice(choose: random.Random, said: list[Frame]) -> None:
    """A frame again, up to a flood of it."""
    again = choose.choice(said)
    at = choose.randrange(len(said) + 1)
    said[at:at] = [again] * choose.choice((1, 1, 2, 5, 100))


def _gone(choose: random.Random, said: list[Frame]) -> None:
    del said[choose.randrange(len(said))]


def _swapped(choose: random.Random, said: list[Frame]) -> None:
    a, b = choose.randrange(len(said)), choose.randrange(len(said))
    said[a], said[b] = said[b], said[a]


def _stranger(choose: random.Random, said: list[Frame]) -> None:
    """A frame of any type with a payload that is not unusual for some type."""
    kind = choose.choice((*range(10), choose.randrange(256)))
    stream = choose.choice((0, 0, 1, 3, 5, 7, 9, 2, choose.randrange(1 << 31)))
    flags = choose.choice((0, 0, 1, 4, 5, 8, 9, 32, 36, choose.randrange(256)))
    said.insert(choose.randrange(len(said) + 1), Frame(kind, flags, stream, _likely(choose, kind)))


def _likely(choose: random.Random, kind: int) -> bytes:
    if kind in {frames.HEADERS, frames.CONTINUATION}:
        return choose.choice(BLOCKS) + choose.randbytes(choose.randrange(4))
    if kind == frames.DATA:
        size = choose.choice((0, 1, 50, 300, 1_001, 70_000, (1 << 32) - 1))
        body = pack(">BI", choose.choice((0, 0, 0, 1)), size) + choose.randbytes(min(size, LARGEST_BODY))
        return body[: choose.choice((1, 4, 5, len(body), len(body)))]
    if kind == frames.SETTINGS:
        key, value = (
            choose.randrange(1, 8),
            choose.choice((0, 1, 100, 16_384, 1 << 24, (1 << 31) - 1, 1 << 31, (1 << 32) - 1)),
        )
        return frames.SETTING.pack(key, value) * choose.choice((0, 1, 1, 3))
    if kind == frames.WINDOW_UPDATE:
        return U32.pack(choose.choice((0, 1, 1 << 30, (1 << 31) - 1, 1 << 31, (1 << 32) - 1)))
    return choose.choice((b"12345678", b"\0\0\0\1", b"\0\0\0\0\7", b"", choose.randbytes(choose.randrange(20))))


def _compression(choose: random.Random, said: list[Frame]) -> None:
    """Another block in some HEADERS: table sizes, indices that are not there, strings that end early, bombs."""
    places = [at for at, one in enumerate(said) if one.kind in {frames.HEADERS, frames.CONTINUATION}]
    if places:
        at, block = choose.choice(places), choose.choice(BLOCKS)
        _replaced(said, at, choose.choice((block, block + said[at].payload, said[at].payload + block)))


def _settled(choose: random.Random, said: list[Frame]) -> None:
    """SETTINGS anywhere, with extreme values."""
    said.insert(choose.randrange(len(said) + 1), Frame(frames.SETTINGS, 0, 0, _likely(choose, frames.SETTINGS)))


def _window(choose: random.Random, said: list[Frame]) -> None:
    """WINDOW_UPDATE anywhere, up to an overflow."""
    update = Frame(frames.WINDOW_UPDATE, 0, choose.choice((0, 1, 3, 5)), _likely(choose, frames.WINDOW_UPDATE))
    said.insert(choose.randrange(len(said) + 1), update)


def _inside(choose: random.Random, said: list[Frame]) -> None:
    """A header block that something comes between, or that never ends."""
    places = [at for at, one in enumerate(said) if one.kind == frames.HEADERS and one.flags & frames.END_HEADERS]
    if places:
        at = choose.choice(places)
        old, cut = said[at], choose.randrange(len(said[at].payload) + 1)
        between = choose.choice(([], [], [choose.choice(said)], [Frame(frames.CONTINUATION, 0, old.stream)] * 30))
        rest = Frame(frames.CONTINUATION, frames.END_HEADERS, old.stream, old.payload[cut:])
        first = Frame(old.kind, old.flags ^ frames.END_HEADERS, old.stream, old.payload[:cut])
        said[at : at + 1] = [first, *between, rest]


_BREAKS: Final[tuple[Callable[[random.Random, list[Frame]], None], ...]] = (
    *(_kind, _flags, _stream, _length, _payload, _payload, _padding, _twice, _gone, _swapped),
    *(_stranger, _stranger, _compression, _settled, _window, _inside),
)


# Over the line.


def bytes_of(choose: random.Random, said: list[Frame], *, right: bool) -> list[bytes]:
    """The conversation with its preface, cut into pieces anywhere; a wrong one may end early, or in noise."""
    begin = PREFACE + frames.settings({}) + frames.SETTINGS_ACK
    whole = begin + b"".join(one.encode() for one in said)
    if not right and choose.random() < 0.1:
        whole = whole[: choose.randrange(len(whole))] + choose.randbytes(choose.randrange(200))
    places = sorted(choose.randrange(len(whole) + 1) for _ in range(choose.choice((0, 1, 3, 6, 30))))
    return [whole[a:b] for a, b in zip([0, *places], [*places, len(whole)], strict=True) if a < b]
