"""Single values of Redis hashes and JSON objects. What is not a good value is unknown: None, never an exception."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import msgspec

from tidegate.domain.sample import Status

_GPUS = dict[str, dict[str, bool | int | float | str | None]]
_gpus_decoder = msgspec.json.Decoder(_GPUS)
_names_decoder = msgspec.json.Decoder(list[str])


def text(raw: bytes) -> str:
    """Bytes as text; what is not UTF-8 shows as U+FFFD, so that an operator sees it in `rejected`."""
    return raw.decode("utf-8", "replace")


def texts(reply: Mapping[bytes, bytes]) -> dict[str, str]:
    """A whole hash as text."""
    return {text(name): text(value) for name, value in reply.items()}


def count(raw: Any) -> int | None:
    """A whole number ≥ 0 from a hash field or a JSON value, else None."""
    if isinstance(raw, bytes):
        return int(raw) if raw.isdigit() and len(raw) <= 18 else None
    return raw if isinstance(raw, int) and not isinstance(raw, bool) and raw >= 0 else None


def amount(raw: Any) -> float | None:
    """A finite number ≥ 0, else None."""
    if isinstance(raw, bool) or not isinstance(raw, bytes | int | float):
        return None
    try:
        value = float(raw)
    except (ValueError, OverflowError):
        return None
    return value if math.isfinite(value) and value >= 0 else None


def ratio(raw: Any) -> float | None:
    """A number in [0, 1], else None."""
    value = amount(raw)
    return value if value is not None and value <= 1 else None


def word(raw: Any) -> str | None:
    """Text that is not empty, else None."""
    if isinstance(raw, bytes):
        raw = text(raw)
    return raw if isinstance(raw, str) and raw else None


def status(raw: Any) -> Status:
    """The status; a word that nobody knows is UNREACHABLE: seen, but it gets no traffic."""
    try:
        return Status(word(raw) or "")
    except ValueError:
        return Status.UNREACHABLE


def names(raw: Any) -> tuple[str, ...]:
    """A JSON list of strings as a tuple; anything else is empty."""
    if isinstance(raw, bytes):
        try:
            raw = _names_decoder.decode(raw)
        except (msgspec.DecodeError, UnicodeError):
            return ()
    return tuple(raw) if isinstance(raw, list) and all(isinstance(name, str) for name in raw) else ()


def gpus(raw: Any) -> dict[str, dict[str, bool | int | float | str | None]]:
    """GPUs by UUID; anything else is empty."""
    try:
        return _gpus_decoder.decode(raw) if isinstance(raw, bytes) else msgspec.convert(raw, _GPUS)
    except (msgspec.DecodeError, UnicodeError):
        return {}
