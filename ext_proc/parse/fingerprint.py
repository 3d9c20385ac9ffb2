"""The fingerprint of a prompt: 64-bit hashes, each chained to the one before it.

    seed = model, cache_salt, LoRA names
    system text ─▶ tools ─▶ message ─▶ message …      a mark after each, and inside a long text after each block

Two requests share a prompt up to the last mark that they have in common. Each mark knows how much of the prompt
stands before it, as it is counted for the estimate of tokens. The hash is xxh3 and equal in every process.

What does not count: `cache_control`, ids, names and other fields around a text; and an attribution line at the head
of a system text (`x-anthropic-billing-header: …`), which changes with every request and which vLLM removes before
it renders the prompt. A date in a system text does count: the engine's own cache ends there as well.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from xxhash import xxh3_64_intdigest

Buffer = bytes | memoryview

_KI: Final = 1 << 10
_ENDS: Final = (_KI, *range(2 * _KI, 8 * _KI, 2 * _KI), *range(8 * _KI, 64 * _KI, 4 * _KI))
_LAST_END: Final = 64 * _KI
_LAST_STEP: Final = 16 * _KI
_ENDS_BELOW: Final = tuple(tuple(end for end in _ENDS if end <= ki * _KI) for ki in range(_LAST_END // _KI))
"""Blocks of a text, in code points: of 1 or 2 Ki up to 8 Ki, of 4 Ki up to 64 Ki, then of 16 Ki."""

_ID_BYTES: Final = 8
_SHORT: Final = 256

_ROLES: Final = {
    role: xxh3_64_intdigest(role.encode())
    for role in ("system", "developer", "user", "assistant", "tool", "function", "tools")
}
_TOOLS: Final = _ROLES["tools"]
_ATTRIBUTION: Final = re.compile(r"x-[a-z0-9-]{0,40}(?:billing|attribution)[a-z0-9-]{0,40}:[^\n]*\n*", re.IGNORECASE)


def without_attribution(text: str) -> str:
    """`text` without an attribution line at its head."""
    if text[:2] not in {"x-", "X-"}:
        return text
    found = _ATTRIBUTION.match(text)
    return text[found.end() :] if found else text


class Chain:
    """A fingerprint under construction.

    `marks` is the result so far, `ends` how much of the prompt stands before the end of each: characters, with the
    bytes of tools among them, or token ids where the prompt is made of those (`of_ids`).
    """

    __slots__ = ("_at", "_hash", "ends", "marks", "of_ids")

    def __init__(self, *seed: str | None) -> None:
        text = "\0".join([part or "" for part in seed])
        self._hash = xxh3_64_intdigest(text.encode())
        self._at = 0
        self.marks: list[int] = []
        self.ends: list[int] = []
        self.of_ids = False

    def begin(self, role: object) -> None:
        """A message of `role` follows."""
        self._hash ^= _role(role)

    def end(self) -> None:
        """A message, or all that stands before the first, is complete."""
        self.marks.append(self._hash)
        self.ends.append(self._at)

    def message(self, role: object, text: str) -> None:
        """`begin`, `text` and `end` in one, for the many messages that are a short text."""
        known = _ROLES.get(role) if type(role) is str else 0
        digest = self._hash ^ (_role(role) if known is None else known)
        if (size := len(text)) <= _SHORT:
            self._hash = digest = xxh3_64_intdigest(text.encode(), digest)
            self._at += size
        else:
            self._hash = digest
            self.text(text)
            digest = self._hash
        self.marks.append(digest)
        self.ends.append(self._at)

    def tool(self, data: bytes, size: int) -> None:
        """`begin`, `whole` and `end` in one, for a tool."""
        self._hash = xxh3_64_intdigest(data, self._hash ^ _TOOLS)
        self._at += size
        self.marks.append(self._hash)
        self.ends.append(self._at)

    def skip(self, size: int) -> None:
        """`size` characters of the prompt are part of no mark."""
        self._at += size

    def text(self, text: str) -> None:
        """Add text, with a mark after each block that more text follows."""
        if len(text) <= _KI:
            self._hash = xxh3_64_intdigest(_bytes(text), self._hash)
        elif len(text) <= _LAST_END and text.isascii():
            self._blocks(text.encode())
        else:
            self._slices(text)
        self._at += len(text)

    def ids(self, data: bytes) -> None:
        """Add token ids of eight bytes each, with marks as `text` has them. A prompt of ids has nothing beside."""
        self._blocks(data, _ID_BYTES)
        self._at += len(data) // _ID_BYTES
        self.of_ids = True

    def whole(self, data: Buffer, size: int = 0) -> None:
        """Add bytes that are one thing, such as a picture, without marks inside; it counts as `size` characters."""
        self._hash = xxh3_64_intdigest(data, self._hash)
        self._at += size

    def _slices(self, text: str) -> None:
        """`_blocks` of a long text, without a copy of all of it."""
        digest, start, mark, at = self._hash, 0, self.marks.append, self._at
        ends = _block_ends(len(text))
        for end in ends:
            digest = xxh3_64_intdigest(_bytes(text[start:end]), digest)
            mark(digest)
            start = end
        self._hash = xxh3_64_intdigest(_bytes(text[start:]), digest)
        self.ends += [at + end for end in ends]

    def _blocks(self, data: bytes, unit: int = 1) -> None:
        view, digest, start, mark, at = memoryview(data), self._hash, 0, self.marks.append, self._at
        ends = _block_ends(len(view))
        for end in ends:
            digest = xxh3_64_intdigest(view[start:end], digest)
            mark(digest)
            start = end
        self._hash = xxh3_64_intdigest(view[start:], digest)
        self.ends += [at + end for end in ends] if unit == 1 else [at + end // unit for end in ends]


def _role(role: object) -> int:
    if type(role) is not str:
        return 0
    known = _ROLES.get(role)
    return xxh3_64_intdigest(_bytes(role)) if known is None else known


def _bytes(text: str) -> bytes:
    """UTF-16 copies what Python holds of a text beyond Latin-1; for a long one that costs a tenth of UTF-8."""
    return text.encode() if len(text) <= _SHORT or text.isascii() else text.encode("utf-16")


def _block_ends(length: int) -> Sequence[int]:
    """Where the blocks of a text end that more text follows; `length` is at least 1."""
    if length <= _LAST_END:
        return _ENDS_BELOW[(length - 1) // _KI]
    return (*_ENDS, *range(_LAST_END, length, _LAST_STEP))
