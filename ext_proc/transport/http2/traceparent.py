"""The trace of a header block without decoding it: what else such a block says is looked up.

With tracing on, Envoy sends each call's `traceparent`, of which one in a hundred matters here. Where the dynamic table
is empty (SETTINGS_HEADER_TABLE_SIZE 0), a field is a literal of its own, so that a block without the values of the two
fields of W3C Trace Context is the same bytes for each call.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from hpack.huffman_constants import REQUEST_CODES, REQUEST_CODES_LENGTH
from hpack.huffman_table import decode_huffman

TRACEPARENT: Final = b"traceparent"
TRACESTATE: Final = b"tracestate"
HUFFMAN_TRACEPARENT: Final = bytes.fromhex("4d83216b1d85a93f")
"""By RFC 7541, appendix B, as the next one; a test compares both with the library's encoder."""
HUFFMAN_TRACESTATE: Final = bytes.fromhex("4d83215091a4bf")
_HUFFMAN: Final = 0x80
_NAMES: Final = {
    bytes((len(TRACEPARENT),)) + TRACEPARENT: True,
    bytes((len(TRACESTATE),)) + TRACESTATE: False,
    bytes((_HUFFMAN | len(HUFFMAN_TRACEPARENT),)) + HUFFMAN_TRACEPARENT: True,
    bytes((_HUFFMAN | len(HUFFMAN_TRACESTATE),)) + HUFFMAN_TRACESTATE: False,
}
_LONG: Final = 0x7F
LONGEST: Final = _LONG
"""Bytes of a string whose length takes one byte, that byte included."""
LONGEST_DECODED: Final = (LONGEST - 1) * 8 // 5
"""Bytes that such a string says at most: the shortest code has five bits."""
_ZEROS_UNSAMPLED: Final = 11
"""Zero bits at the end of `-00`: `-` is 010110, `0` is 00000. `-01` ends in ten of them and ones, which pad as well."""
_ALPHABET: Final = b"0123456789abcdef-"


def _automaton() -> tuple[list[bytes], frozenset[int]]:
    """Reads codes of `_ALPHABET`, a byte a step: rows by state, of the state that each byte leads to, and final states.

    A state is the bits of a code that has begun, or of padding: at most seven ones (RFC 7541, section 5.2). 0 is none.
    """
    codes = {f"{REQUEST_CODES[char]:0{REQUEST_CODES_LENGTH[char]}b}" for char in _ALPHABET}
    padding = {"1" * size for size in range(8)}
    states = sorted({code[:size] for code in codes for size in range(len(code))} | padding)
    number = {bits: at for at, bits in enumerate(states)} | dict.fromkeys(codes, 0)
    dead = len(states)
    rows = [bytes(number.get(bits + bit, dead) for bit in "01") for bits in states] + [bytes((dead, dead))]
    for _ in ("two bits", "four bits", "eight bits"):
        rows = [b"".join(rows[then] for then in row) for row in rows]
    return rows, frozenset(number[bits] for bits in padding)


_ROWS, _FINAL = _automaton()


class Literal:
    """A string of HPACK as it was sent (RFC 7541, section 5.2) from `begin` of its block on, its length in one byte."""

    __slots__ = ("_data", "begin")

    def __init__(self, data: bytes, begin: int = 0) -> None:
        self._data, self.begin = data, begin

    @property
    def size(self) -> int:
        """Bytes of the block that it takes."""
        return len(self._data)

    @property
    def plain(self) -> bool:
        """Whether it is nothing but lower-case hexadecimal digits and `-`, and its code whole."""
        data, state, rows = self._data, 0, _ROWS
        if not data[0] & _HUFFMAN:
            return not data[1:].translate(None, _ALPHABET)
        for byte in data[1:]:
            state = rows[state][byte]
        return state in _FINAL

    @property
    def unsampled(self) -> bool:
        """Whether a traceparent ends in `-00`, told from its last bits. Of what is no traceparent, anything."""
        data = self._data
        if not data[0] & _HUFFMAN:
            return data.endswith(b"-00")
        tail = int.from_bytes(data[-3:], "big")
        tail >>= (~tail & (tail + 1)).bit_length() - 1  # ones pad the last byte
        return (tail & -tail).bit_length() - 1 == _ZEROS_UNSAMPLED

    def decoded(self) -> bytes:
        """What it says. Raises hpack.HPACKError when its code is broken."""
        data = self._data
        return decode_huffman(data[1:]) if data[0] & _HUFFMAN else data[1:]


class Parts(NamedTuple):
    """A block without the values of the fields of a trace: the last traceparent, and others of either name."""

    key: bytes
    trace: Literal | None
    others: list[Literal]

    @property
    def cuts(self) -> int:
        """Values that were left out."""
        return len(self.others) + (self.trace is not None)


def split(block: bytes) -> Parts | None:
    """What a block is but for the values of its trace. Two blocks of one key have the same fields, those aside.

    None for a block that may change the dynamic table, or that has a string of more than 126 bytes, or an index over
    142 of a name (126 of a field). Indexed fields and literals without indexing change nothing (RFC 7541, sections
    6.1, 6.2.2 and 6.2.3).
    """
    at, end = 0, len(block)
    cuts: list[tuple[int, int, bool]] = []
    while at < end:
        first = block[at]
        at += 1
        if first & 0x80:
            if first == 0xFF:
                return None
            continue
        if first & 0xE0:
            return None
        is_trace: bool | None = None
        index = first & 0x0F
        if not index:
            name, at = at, _behind(block, at)
            is_trace = None if first else _NAMES.get(block[name:at])
        elif index == 0x0F:  # fifteen and more: one more byte has the rest (section 5.1)
            at = at + 1 if at < end and block[at] < 0x80 else 0
        value_end = _behind(block, at) if at else 0
        if not value_end:
            return None
        if is_trace is not None:
            cuts.append((at, value_end, is_trace))
        at = value_end
    return _parted(block, cuts) if cuts else Parts(block, None, [])


def _parted(block: bytes, cuts: list[tuple[int, int, bool]]) -> Parts:
    """Without the values from one place to another; whether each is a traceparent. The last of these is the trace."""
    kept, values, begin, trace = [], [], 0, None
    for at, value_end, is_trace in cuts:
        kept.append(block[begin:at])
        begin = value_end
        value = Literal(block[at:value_end], at)
        values.append(value)
        trace = value if is_trace else trace
    kept.append(block[begin:])
    return Parts(b"".join(kept), trace, [value for value in values if value is not trace])


def _behind(block: bytes, at: int) -> int:
    """Where a string ends that begins at `at`; 0 when it is cut off, or its length takes more than one byte."""
    if at >= len(block):
        return 0
    length = block[at] & 0x7F
    end = at + 1 + length
    return 0 if length == _LONG or end > len(block) else end
