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
_FIRST_STEP: Final = 16
_GROWTH: Final = 16


def with_paired_surrogates(text: bytes) -> bytes:
    """JSON with U+FFFD for the escapes of unpaired surrogates. Every offset stays."""
    return _LONE_SURROGATE.sub(_replacement, text)


def _replacement(found: re.Match[bytes]) -> bytes:
    """An escape behind an odd number of backslashes is none: the last of them escapes its own."""
    return found[0] if _backslashes(found.string, found.start()) % 2 else b"\\ufffd"


def _backslashes(text: bytes, end: int) -> int:
    """How many backslashes stand right before `end`, looked for in steps that grow with the run."""
    step = _FIRST_STEP
    while True:
        before = text[max(0, end - step) : end]
        run = len(before) - len(before.rstrip(b"\\"))
        if run < step:
            return run
        step *= _GROWTH
