"""Escapes of unpaired surrogates: no text, but Python clients write them and Python engines read them."""

from __future__ import annotations

import re
from typing import Final

# Begins with a literal, which the engine of `re` searches for a hundred times as fast as for a look-behind.
_LONE_SURROGATE: Final = re.compile(
    rb"\\u[dD](?:"
    rb"[89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F][0-9a-fA-F]{2})"
    rb"|[c-fC-F][0-9a-fA-F]{2}(?<!\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][0-9a-fA-F]{3})"
    rb")"
)
_BACKSLASH: Final = ord("\\")


def with_paired_surrogates(text: bytes) -> bytes:
    """JSON with U+FFFD for the escapes of unpaired surrogates. Every offset stays."""
    return _LONE_SURROGATE.sub(_replacement, text)


def _replacement(found: re.Match[bytes]) -> bytes:
    """An escape behind an odd number of backslashes is none: the last of them escapes its own."""
    text, at = found.string, found.start()
    while at and text[at - 1] == _BACKSLASH:
        at -= 1
    return found[0] if (found.start() - at) % 2 else b"\\ufffd"
