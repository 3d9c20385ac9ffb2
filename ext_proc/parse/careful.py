"""JSON bytes → Body: at once where they fit, and field by field where a prompt is huge or no prompt at all.

A prompt that fits no type, such as a list of floats, is read as far as it fits: the engine refuses it in its own words.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import Raw

from ext_proc.parse.body import NO_MODEL, PROMPTS, Body, Item, Message, Model, Part, Reader, broken
from ext_proc.parse.scalars import NULL, is_null
from ext_proc.parse.structure import LARGEST_STRUCTURE, MOST_VALUES, fits
from ext_proc.parse.surrogates import with_paired_surrogates
from tidegate.domain.refusal import Reason, Refusal

_BOM: Final = b"\xef\xbb\xbf"
_MOST_SURROGATES: Final = 30_000  # escapes of surrogates in a body that is worth a second look
_MOST_ELEMENTS: Final = 40_000
_MOST_UNFIT: Final = 64
"""Elements that fit no type, of a prompt that is read further."""

_NUMBER: Final = b"-0123456789"  # what one begins with
_ELEMENTS: Final = {
    "messages": str | bool | Message | list[str | int | bool | Message | None] | None,
}
_ELEMENT: Final = str | bool | Item | list[Part] | None


class _Name(msgspec.Struct, gc=False):
    """`model` where it stands, none of them a list, an object or a float."""

    model: str | int | bool | None = None


_Encoded: Final = msgspec.defstruct(
    "_Encoded",
    [
        ("model", Model, NO_MODEL),
        *((name, Raw, NULL) for name in Body.__struct_fields__ if name != "model"),
    ],
    gc=False,
)
_reader: Final = Reader(Body)
_careful_reader: Final = Reader(_Encoded)
_check_name: Final = msgspec.json.Decoder(_Name).decode


def read_json(body: bytes) -> Body:
    """Decode `body`. Raises Refusal: invalid-json; invalid-request for a second `model` or far too large a prompt."""
    body = body.removeprefix(_BOM)
    at_once = fits(body)
    try:
        return _read(body, at_once=at_once)
    except (msgspec.DecodeError, UnicodeDecodeError) as exc:
        if not 0 < body.count(b"\\ud") + body.count(b"\\uD") <= _MOST_SURROGATES:
            raise broken(exc, body) from exc
    except RecursionError as exc:
        raise _deep() from exc
    try:
        return _read(with_paired_surrogates(body), at_once=at_once)
    except (msgspec.DecodeError, UnicodeDecodeError) as exc:
        raise broken(exc, body) from exc
    except RecursionError as exc:
        raise _deep() from exc


def _read(body: bytes, *, at_once: bool) -> Body:
    try:
        if at_once:
            whole: Body = _reader.read(body)
            return whole
    except msgspec.ValidationError as exc:
        _check_range(exc)
    return _read_fields(body)


def _read_fields(body: bytes) -> Body:
    try:
        _check_name(body)
    except msgspec.ValidationError as exc:
        if "$.model" in str(exc):
            raise Refusal(Reason.INVALID_REQUEST, "`model` must be a string.", param="model") from exc
        raise Refusal(Reason.INVALID_JSON, "The body must be a JSON object.") from exc
    encoded, found = _careful_reader.read(body), Body()
    for name in Body.__struct_fields__:
        value = getattr(encoded, name)
        if name in PROMPTS and value is not NULL:
            value = _prompt(name, value)
        elif name in PROMPTS:
            continue
        setattr(found, name, value)
    return found


def _prompt(name: str, raw: Raw) -> Any:
    """The prompt under `name`, as far as it fits."""
    if is_null(raw):
        return None
    if not fits(bytes(raw)):
        said = f"`{name}` has more than {LARGEST_STRUCTURE} lists and objects or {MOST_VALUES} values."
        raise Refusal(Reason.INVALID_REQUEST, said, param=name)
    try:
        return msgspec.json.decode(raw, type=PROMPTS[name])
    except msgspec.ValidationError as exc:
        _check_range(exc)
    return _elements(name, raw) if memoryview(raw)[0] == ord("[") else None


def _elements(name: str, raw: Raw) -> list[Any]:
    """The elements that fit, and None in place of the others; none after too many that do not."""
    if bytes(raw).count(b",") >= LARGEST_STRUCTURE:
        return []
    kind, unfit = _ELEMENTS.get(name, _ELEMENT), 0
    found: list[Any] = []
    for element in msgspec.json.decode(raw, type=list[Raw]):
        value = None
        try:
            value = None if memoryview(element)[0] in _NUMBER else msgspec.json.decode(element, type=kind)
        except msgspec.ValidationError:
            unfit += 1
        found.append(value)
        if unfit > _MOST_UNFIT or len(found) > _MOST_ELEMENTS:
            break
    return found


def _check_range(exc: msgspec.ValidationError) -> None:
    if "out of range" in str(exc):
        raise Refusal(Reason.INVALID_REQUEST, "The body holds a number that is too large.") from exc


def _deep() -> Refusal:
    return Refusal(Reason.INVALID_JSON, "The body is nested too deeply.")
