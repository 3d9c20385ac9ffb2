"""The trace of a header block without decoding it: what else such a block says is looked up.

With tracing on, Envoy sends each call's `traceparent`, of which one in a hundred matters here. Where the dynamic table
is empty (SETTINGS_HEADER_TABLE_SIZE 0), a field is a literal of its own, so that a block without the values of the two
fields of W3C Trace Context is the same bytes for each call.
"""

from __future__ import annotations

from typing import Final

from hpack.huffman_table import decode_huffman

HUFFMAN_TRACEPARENT: Final = bytes.fromhex("4d83216b1d85a93f")
"""By RFC 7541, appendix B, as the next one; a test compares both with the library's encoder."""
HUFFMAN_TRACESTATE: Final = bytes.fromhex("4d83215091a4bf")
_NAMES: Final = {
    b"traceparent": True,
    b"tracestate": False,
    HUFFMAN_TRACEPARENT: True,
    HUFFMAN_TRACESTATE: False,
}
_HUFFMAN: Final = 0x80
_LONG: Final = 0x7F
LONGEST: Final = _LONG
"""Bytes of a string whose length takes one byte, that byte included."""
_ZEROS_UNSAMPLED: Final = 11
"""Zero bits at the end of `-00`: `-` is 010110, `0` is 00000. `-01` ends in ten of them and ones, which pad as well."""


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
    def unsampled(self) -> bool:
        """Whether it is a traceparent that ends in `-00`, told from its last bits. False where that takes decoding."""
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


def split(block: bytes) -> tuple[bytes, Literal | None] | None:
    """The block without the values of the fields of a trace, and the traceparent, if any.

    None for a block that changes the dynamic table, or of which a part takes more than one byte to tell its length.
    Indexed fields and literals without indexing change nothing (sections 6.1, 6.2.2 and 6.2.3).
    """
    at, end = 0, len(block)
    trace: Literal | None = None
    kept: list[bytes] = []
    begin = 0
    while at < end:
        first = block[at]
        at += 1
        if first & 0x80:
            if first == 0xFF:
                return None
            continue
        if first & 0xE0 or first & 0x0F == 0x0F:
            return None
        is_trace: bool | None = None
        if not first:
            name_end = _behind(block, at)
            is_trace = _NAMES.get(block[at + 1 : name_end]) if name_end else None
            at = name_end
        elif first == 0x10:
            at = _behind(block, at)
        value_end = _behind(block, at) if at else 0
        if not value_end:
            return None
        if is_trace is not None:
            kept.append(block[begin:at])
            begin = value_end
            trace = Literal(block[at:value_end], at) if is_trace else trace
        at = value_end
    return (b"".join(kept) + block[begin:] if kept else block), trace


def _behind(block: bytes, at: int) -> int:
    """Where a string ends that begins at `at`; 0 when it is cut off, or its length takes more than one byte."""
    if at >= len(block):
        return 0
    length = block[at] & 0x7F
    end = at + 1 + length
    return 0 if length == _LONG or end > len(block) else end
