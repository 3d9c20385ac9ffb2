"""How much a JSON text holds, counted before any of it is decoded: a list takes two bytes there and 60 in memory."""

from __future__ import annotations

from typing import Final

LARGEST_STRUCTURE: Final = 200_000
"""Lists and objects of a prompt: decoded, one takes some 200 bytes; written as `{},` it takes three."""

MOST_VALUES: Final = 2_000_000
"""Strings and numbers of a prompt: decoded, one takes some 60 bytes; written as `1,` it takes two."""

_RARE: Final = 10_000
_NOT_COUNTED: Final = bytes(set(range(256)) - set(b'"{[,'))
_CHUNK: Final = 1 << 18


def fits(text: bytes) -> bool:
    """Whether `text` holds neither more lists and objects nor more values than are decoded."""
    few_values = len(text) <= 2 * MOST_VALUES or _few(text, b",") or text.count(b",") < MOST_VALUES
    if few_values and (len(text) <= 3 * LARGEST_STRUCTURE or (_few(text, b"{") and _few(text, b"["))):
        return True
    if few_values and text.count(b"{") + text.count(b"[") <= LARGEST_STRUCTURE:
        return True
    brackets, commas = outside_strings(text)
    return brackets <= LARGEST_STRUCTURE and commas < MOST_VALUES


def outside_strings(text: bytes) -> tuple[int, int]:
    """Opening brackets and commas of `text` that stand in no string.

    Where two quotes meet, a string without either ends or two strings do: without the pair, what stands inside a
    string and what does not stay as they are.
    """
    bare = text.replace(b"\\\\", b"").replace(b'\\"', b"").translate(None, _NOT_COUNTED).replace(b'""', b"")
    brackets = commas = inside = 0
    for start in range(0, len(bare), _CHUNK):
        pieces = bare[start : start + _CHUNK].split(b'"')
        outside = b"".join(pieces[inside::2])
        brackets += outside.count(b"{") + outside.count(b"[")
        commas += outside.count(b",")
        inside ^= (len(pieces) - 1) & 1
    return brackets, commas


def _few(text: bytes, byte: bytes) -> bool:
    """Whether `byte` is rare: `find` looks for one ten times as fast as `count` does, between two of them."""
    at = text.find(byte)
    for _ in range(_RARE):
        if at < 0:
            return True
        at = text.find(byte, at + 1)
    return False
