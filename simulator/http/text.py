"""Tokens without a tokenizer: four bytes a token, both ways, so that every count can be checked by hand."""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b, shake_256

BYTES_PER_TOKEN = 4
_WORDS = 4096
_CONSONANTS, _VOWELS = "bdfgklmnprstvz", "aeiou"


@dataclass(frozen=True, slots=True)
class Prompt:
    """A rendered prompt: its bytes, and how many tokens they are (at least one)."""

    data: bytes
    tokens: int

    @classmethod
    def of_text(cls, text: str) -> Prompt:
        """A prompt given as text. Lone surrogates count as bytes too."""
        data = text.encode("utf-8", "surrogatepass")
        return cls(data, max(1, -(-len(data) // BYTES_PER_TOKEN)))

    @classmethod
    def of_ids(cls, ids: Sequence[int]) -> Prompt:
        """A prompt given as token ids, taken modulo 2^32."""
        return cls(struct.pack(f"<{len(ids)}I", *(i & 0xFFFFFFFF for i in ids)), len(ids))

    @classmethod
    def of_media(cls, data: bytes, tokens: int) -> Prompt:
        """A prompt that is a picture or a sound of so many tokens; other data, other prompt."""
        return cls(shake_256(data).digest(tokens * BYTES_PER_TOKEN), tokens)


def token_ids(prompt: Prompt) -> list[int]:
    """The ids of a prompt: its bytes, four at a time, little-endian, the last one padded with zeros."""
    padded = prompt.data.ljust(prompt.tokens * BYTES_PER_TOKEN, b"\0")
    return list(struct.unpack(f"<{prompt.tokens}I", padded))


def chain(data: bytes, block_tokens: int) -> list[int]:
    """Chained hashes of the full blocks of `data`: equal hash, equal whole prefix. The same in every process."""
    size = block_tokens * BYTES_PER_TOKEN
    parent, hashes = b"", []
    for end in range(size, len(data) + 1, size):
        parent = blake2b(parent + data[end - size : end], digest_size=8).digest()
        hashes.append(int.from_bytes(parent, "little"))
    return hashes


class Words:
    """An endless text of four-byte words, one a token, the same for the same seed."""

    def __init__(self, seed: int) -> None:
        rng = random.Random(seed)  # noqa: S311 - filler, not a secret
        pick = rng.choice
        self._text = "".join(pick(_CONSONANTS) + pick(_VOWELS) + pick(_CONSONANTS) + " " for _ in range(_WORDS))

    def text(self, start: int, tokens: int) -> str:
        """`tokens` words from the word at `start` (any integer), the last one ended by a full stop."""
        if not tokens:
            return ""
        begin, length = start % _WORDS * BYTES_PER_TOKEN, tokens * BYTES_PER_TOKEN
        copies = 1 + (begin + length) // len(self._text)
        return (self._text * copies)[begin : begin + length - 1] + "."
