"""JSON bodies: one decode, unknown fields skipped unread."""

from __future__ import annotations

from typing import Final

import msgspec

from tidegate.domain.refusal import Reason, Refusal
from tidegate.domain.request import RequestInfo
from tidegate.domain.routing import Api

_NULL: Final = msgspec.Raw(b"null")


class _Fields(msgspec.Struct):
    """Raw values: a wrong type in one field is that field's fault, not the document's."""

    model: msgspec.Raw = _NULL
    stream: msgspec.Raw = _NULL


_decode_fields: Final = msgspec.json.Decoder(_Fields).decode
_decode_model: Final = msgspec.json.Decoder(str | None).decode


def parse_body(body: bytes) -> RequestInfo:
    """Read `body`. Raises Refusal (invalid-json, invalid-request)."""
    fields = _fields(body)
    return RequestInfo(api=Api.UNKNOWN, model=_model(fields.model), stream=bytes(fields.stream) == b"true")


def _fields(body: bytes) -> _Fields:
    try:
        return _decode_fields(body)
    except msgspec.ValidationError as exc:
        raise Refusal(Reason.INVALID_JSON, "The body must be a JSON object.") from exc
    except (msgspec.DecodeError, UnicodeDecodeError) as exc:
        raise Refusal(Reason.INVALID_JSON, f"The body is not valid JSON: {exc}.") from exc
    except RecursionError as exc:
        raise Refusal(Reason.INVALID_JSON, "The body is nested too deeply.") from exc


def _model(raw: msgspec.Raw) -> str | None:
    try:
        return _decode_model(raw)
    except msgspec.ValidationError as exc:
        raise Refusal(Reason.INVALID_REQUEST, "`model` must be a string.", param="model") from exc
    except (msgspec.DecodeError, UnicodeDecodeError) as exc:
        raise Refusal(Reason.INVALID_JSON, f"The body is not valid JSON: `model`: {exc}.") from exc
