"""Where the name of the model stands in a body, to replace it and leave every other byte alone."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Raw

from ext_proc.parse.multipart import read_form
from ext_proc.parse.request import is_form
from ext_proc.parse.scalars import NULL, is_null
from ext_proc.parse.surrogates import with_paired_surrogates

_BOM: Final = b"\xef\xbb\xbf"


class _Checkpoint(msgspec.Struct, gc=False):
    sd_model_checkpoint: Raw = NULL


class _Names(msgspec.Struct, gc=False):
    model: Raw = NULL
    override_settings: _Checkpoint | str | int | float | bool | list[Raw] | None = None


_decode_names: Final = msgspec.json.Decoder(_Names).decode


def model_span(body: bytes, content_type: str | None = None) -> tuple[int, int] | None:
    """Start and end of the model's value in a body without content-encoding that `parse_request` has accepted.

    In JSON the value has its quotes; in a form it is the bare text. None when the body names no model.
    """
    if is_form(content_type):
        return read_form(body, content_type or "").spans.get("model")
    skipped = len(_BOM) if body.startswith(_BOM) else 0
    found = _json_span(body[skipped:])
    return None if found is None else (found[0] + skipped, found[1] + skipped)


def with_model(body: bytes, model: str, content_type: str | None = None) -> bytes | None:
    """`body` with another model's name in place of its own; None when it has none to replace."""
    span = model_span(body, content_type)
    if span is None:
        return None
    name = model.encode() if is_form(content_type) else msgspec.json.encode(model)
    return b"".join((memoryview(body)[: span[0]], name, memoryview(body)[span[1] :]))


def _json_span(body: bytes) -> tuple[int, int] | None:
    """The decoded value is a view into the buffer: its place is where a change of the buffer shows in it.

    Halves the range that can hold the value's first byte, blanking one half each time: twice the body is written.
    """
    buffer, names = _decoded(body)
    value = _value(names)
    if value is None:
        return None
    view, text = memoryview(value), bytes(buffer)
    low, high = 0, len(buffer)
    while high - low > 1:
        middle = (low + high) // 2
        buffer[low:middle] = bytes(middle - low)
        found = view[0] == 0
        buffer[low:middle] = text[low:middle]
        low, high = (low, middle) if found else (middle, high)
    return low, low + len(view)


def _decoded(body: bytes) -> tuple[bytearray, _Names]:
    try:
        buffer = bytearray(body)
        return buffer, _decode_names(buffer)
    except msgspec.DecodeError:
        buffer = bytearray(with_paired_surrogates(body))
        return buffer, _decode_names(buffer)


def _value(names: _Names) -> Raw | None:
    if not is_null(names.model):
        return names.model
    nested = names.override_settings
    if isinstance(nested, _Checkpoint) and not is_null(nested.sd_model_checkpoint):
        return nested.sd_model_checkpoint
    return None
