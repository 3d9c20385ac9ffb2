"""The one message that Envoy sends, read without a protobuf object: a whole body, and what stands behind it.

    22 len { 0A len BODY  10 01 }   request_body { body, end_of_stream }
    4A len { … }  5A len { … }      attributes, protocol_config: `rest`

Source: `external_processor.proto`; Protobuf writes fields by their numbers, lengths as varints. Anything of another
shape is None here, and the library's to read. The body is copied once, from the pieces in which it was received;
`rest` is the same few bytes for most requests, so that what it says is kept by them.
"""

from __future__ import annotations

from typing import Final

from envoy.service.ext_proc.v3 import external_processor_pb2 as pb
from google.protobuf.message import DecodeError

from tidegate.domain.wire import header_attribute

Pieces = list[bytes | memoryview]
"""A message in the pieces in which it came, in order."""

_FILTER: Final = "envoy.filters.http.ext_proc"
_REQUEST_BODY: Final = 0x22
_BODY: Final = 0x0A
_BEHIND_BODY: Final = (b"\x10\x01", b"")
"""`end_of_stream`, or nothing, which says false: trailers follow."""
_HEAD_BYTES: Final = 12
"""Two tags and two lengths of up to five bytes."""
_MOST_KEPT: Final = 256
_LONGEST_KEPT: Final = 1024


class Attributes:
    """The CEL attributes of a stream's first message."""

    __slots__ = ("_fields",)

    def __init__(self, message: pb.ProcessingRequest) -> None:
        sent = message.attributes
        fields = sent[_FILTER].fields if _FILTER in sent else {}
        self._fields: dict[str, str] = {name: value.string_value for name, value in fields.items()}

    def get(self, name: str) -> str | None:
        """The text of one attribute, such as `request.path`; None when Envoy did not send it."""
        return self._fields.get(name)

    def header(self, name: str) -> str | None:
        """The value of a header by its lower-case name; of one sent more than once, all values, joined by commas.

        None when the client did not send it, or when the listener does not ask for it.
        """
        return self._fields.get(header_attribute(name))


class Beside:
    """What a first message says beside its request: attributes, and how bodies are sent (`request_body_mode`)."""

    __slots__ = ("attributes", "mode")

    def __init__(self, message: pb.ProcessingRequest) -> None:
        self.attributes, self.mode = Attributes(message), int(message.protocol_config.request_body_mode)


class Reader:
    """Reads the messages of many streams. Keeps up to 256 `rest`s of at most 1 KiB with what they say."""

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        self._kept: dict[bytes, Beside] = {}

    def read(self, pieces: Pieces) -> tuple[bytes, Beside] | None:
        """Body and what stands beside it; None for a message of any other shape, broken ones included."""
        found = _split(pieces)
        if found is None:
            return None
        body, rest = found
        beside = self._kept.get(rest)
        if beside is None:
            beside = _beside(rest)
            if beside is not None and len(rest) <= _LONGEST_KEPT:
                if len(self._kept) >= _MOST_KEPT:
                    self._kept.clear()
                self._kept[rest] = beside
        return None if beside is None else (body, beside)


def _split(pieces: Pieces) -> tuple[bytes, bytes] | None:
    """The bytes of the body, and those behind `request_body`."""
    head = pieces[0] if pieces else b""
    if len(head) < _HEAD_BYTES:
        head = _cut(pieces, 0, _HEAD_BYTES).ljust(_HEAD_BYTES, b"\0")
    if head[0] != _REQUEST_BODY:
        return None
    outer, at = _varint(head, 1)
    if head[at] != _BODY:
        return None
    inner, begin = _varint(head, at + 1)
    end, outer_end = begin + inner, at + outer
    size = sum(map(len, pieces))
    if not begin <= end <= outer_end <= size or not begin > at + 1:
        return None
    if _cut(pieces, end, outer_end) not in _BEHIND_BODY:
        return None
    return _cut(pieces, begin, end), _cut(pieces, outer_end, size)


def _varint(head: bytes | memoryview, at: int) -> tuple[int, int]:
    """A length of up to five bytes and the place behind it; the place is `at` for a longer one, which is refused."""
    value = head[at]
    if value < 0x80:
        return value, at + 1
    value &= 0x7F
    for more in range(1, 5):
        byte = head[at + more]
        value |= (byte & 0x7F) << 7 * more
        if byte < 0x80:
            return value, at + more + 1
    return 0, at


def _cut(pieces: Pieces, begin: int, end: int) -> bytes:
    """The bytes from `begin` to `end`, in one copy."""
    if len(pieces) == 1:
        return bytes(pieces[0][begin:end])
    found: list[memoryview] = []
    for piece in pieces:
        size = len(piece)
        if begin < size and end > 0:
            found.append(memoryview(piece)[max(0, begin) : end])
        begin, end = begin - size, end - size
        if end <= 0:
            break
    return b"".join(found)


def _beside(rest: bytes) -> Beside | None:
    """What `rest` says; None where it holds a further request, which would replace or extend the one before."""
    try:
        message = pb.ProcessingRequest.FromString(rest)
    except DecodeError:
        return None
    return Beside(message) if message.WhichOneof("request") is None else None
