"""Escapes of unpaired surrogates: no text, but Python clients write them and Python engines read them."""

from __future__ import annotations

import re
from typing import Final

_LONE_SURROGATE: Final = re.compile(
    rb"(?<!\\)((?:\\\\)*+)"
    rb"(?:\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F][0-9a-fA-F]{2})"
    rb"|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F][0-9a-fA-F]{2})"
)


def with_paired_surrogates(text: bytes) -> bytes:
    """JSON with U+FFFD for the escapes of unpaired surrogates. Every offset stays."""
    return _LONE_SURROGATE.sub(rb"\1\\ufffd", text)
