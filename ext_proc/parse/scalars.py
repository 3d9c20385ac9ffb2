"""Numbers, flags and strings of a body, read as leniently as the engines read them (pydantic's lax mode).

A value of the wrong type is read as absent: the engine refuses it in its own words.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from ext_proc.parse.surrogates import with_paired_surrogates
from tidegate.domain.refusal import Reason, Refusal
from tidegate.domain.request import LARGEST_COUNT

NULL: Final = msgspec.Raw(b"null")
"""The default of every field that is left encoded; compared by identity."""

LONGEST_NUMBER: Final = 4300
"""Digits beyond which Python, and so a Python engine, refuses to read an integer."""

_SHORT_NUMBER: Final = 18
"""Digits of a number that is below LARGEST_COUNT whatever they are."""

_INTEGER: Final = re.compile(rb"[+-]?[0-9]{1,%d}" % LONGEST_NUMBER)
_FLOAT: Final = re.compile(rb"[+-]?[0-9]{1,64}(?:\.[0-9]{0,64})?(?:[eE][+-]?[0-9]{1,8})?")
_FLAGS: Final = {b"true": 1, b"false": 0}  # numbers to pydantic
_NUMBER_STARTS: Final = b"-0123456789"
_TRUE: Final = frozenset({b"true", b"1", b"1.0"})
_TRUE_WORDS: Final = frozenset({"true", "1", "t", "yes", "y", "on"})
_QUOTE: Final = ord('"')
_LONGEST_WORD: Final = 8

_decode_string: Final = msgspec.json.Decoder(str).decode


def integer(raw: msgspec.Raw, name: str) -> int | None:
    """A whole number as int, float, numeric string or flag; None when `raw` is none, infinite or broken.

    Clamped to ±LARGEST_COUNT. Raises Refusal (invalid-request) for a number of more digits than engines read.
    """
    if raw is NULL:
        return None
    text = bytes(raw)
    if text.isdigit() and len(text) <= _SHORT_NUMBER:
        return int(text)
    if text in _FLAGS:
        return _FLAGS[text]
    if text[0] == _QUOTE:
        text = text[1:-1].strip()
    if len(text) > LONGEST_NUMBER and text[0] in _NUMBER_STARTS:
        raise Refusal(Reason.INVALID_REQUEST, f"`{name}` is too large a number.", param=name)
    value = _whole(text)
    return None if value is None else max(-LARGEST_COUNT, min(value, LARGEST_COUNT))


def _whole(text: bytes) -> int | None:
    if _INTEGER.fullmatch(text):
        return int(text)
    if _FLOAT.fullmatch(text):
        value = float(text)
        return int(value) if value.is_integer() else None
    return None


def count(raw: msgspec.Raw, name: str) -> int | None:
    """`integer`, where a negative number is None as well."""
    value = integer(raw, name)
    return None if value is None or value < 0 else value


def flag(raw: msgspec.Raw) -> bool:
    """Whether `raw` is true, 1, or a word for it."""
    if raw is NULL:
        return False
    text = bytes(raw)
    if text[0] == _QUOTE:
        return len(text) <= _LONGEST_WORD and text[1:-1].strip().decode("utf-8", "replace").lower() in _TRUE_WORDS
    return text in _TRUE


def string(raw: msgspec.Raw) -> str | None:
    """The text of a JSON string; None when `raw` is anything else or empty. Raises msgspec.DecodeError."""
    if raw is NULL or memoryview(raw)[0] != _QUOTE:
        return None
    try:
        return _decode_string(raw) or None
    except msgspec.DecodeError:
        return _decode_string(with_paired_surrogates(bytes(raw))) or None


def is_null(raw: msgspec.Raw) -> bool:
    """Whether the field is absent or null."""
    return raw is NULL or bytes(memoryview(raw)[:4]) == b"null"
