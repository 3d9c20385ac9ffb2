"""The one entry: path, headers and body of a request in, what it asks for out."""

from __future__ import annotations

import msgspec
from msgspec import Raw

from ext_proc.parse.body import Body, Model, broken
from ext_proc.parse.careful import read_json
from ext_proc.parse.encoding import decoded
from ext_proc.parse.endpoint import Endpoint, endpoint_of
from ext_proc.parse.info import info_of
from ext_proc.parse.multipart import Form, read_form
from ext_proc.parse.scalars import NULL
from tidegate.domain.request import RequestInfo

_FORM = "multipart/form-data"
_JSON = "application/json"


def parse_request(
    body: bytes, *, path: str, content_type: str | None, content_encoding: str | None, max_bytes: int
) -> RequestInfo:
    """Read a request of at most `max_bytes`, before and after decoding its content-encoding.

    `path` is as the client sent it, with its query. The content-type tells forms from JSON and nothing else: a body
    of any other type is read as JSON, which is what curl's default type hides.

    Raises Refusal: invalid-json, invalid-request, body-too-large, unsupported-encoding.
    """
    plain = decoded(body, content_encoding, max_bytes)
    endpoint = endpoint_of(path)
    try:
        if is_form(content_type):
            return _form_info(read_form(plain, content_type or ""), endpoint)
        return info_of(read_json(plain), endpoint)
    except (msgspec.DecodeError, UnicodeDecodeError) as exc:  # inside a field that was left encoded
        raise broken(exc, plain) from exc


def is_form(content_type: str | None) -> bool:
    """Whether a body of this type is a form with parts."""
    if content_type is None or content_type == _JSON:
        return False
    return content_type.partition(";")[0].strip().lower() == _FORM


def _form_info(form: Form, endpoint: Endpoint) -> RequestInfo:
    body = Body()
    for name in form.spans:
        if name == "model":
            body.model = Model(form.value(name))
        elif name in _ENCODED:
            setattr(body, name, Raw(msgspec.json.encode(form.value(name))))
        elif name in _TEXTS:
            setattr(body, name, form.value(name))
    return info_of(body, endpoint, files=len(form.files))


_DEFAULTS = Body()
_ENCODED = frozenset(name for name in Body.__struct_fields__ if getattr(_DEFAULTS, name) is NULL)
_TEXTS = frozenset(("prompt", "input", "text", "instructions"))
