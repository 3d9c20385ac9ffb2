"""A body under another model's name: every byte but those of the name stays, in the encoding in which it came."""

from __future__ import annotations

import gzip
from typing import Final

import msgspec
from backports import zstd

from ext_proc.parse.encoding import decoded
from ext_proc.parse.request import is_form
from ext_proc.parse.span import with_model
from tidegate.domain.refusal import Reason, Refusal

_GZIP_LEVEL: Final = 1


def under_model(
    body: bytes, model: str, content_type: str | None, content_encoding: str | None, max_bytes: int
) -> bytes:
    """`body`, which `parse_request` has accepted, with `model` as its model's name.

    A JSON body without a name gets it as its last key. Raises Refusal: invalid-request for a form without a field
    `model`.
    """
    plain = decoded(body, content_encoding, max_bytes)
    named = with_model(plain, model, content_type)
    if named is None:
        named = _added(plain, model, content_type)
    return _encoded(named, content_encoding)


def _added(plain: bytes, model: str, content_type: str | None) -> bytes:
    """The last of two keys of one name counts, so that a `"model": null` before it does not."""
    if is_form(content_type):
        raise Refusal(Reason.INVALID_REQUEST, "The form has no field `model`; add it.", param="model")
    end = plain.rindex(b"}")
    comma = b"" if plain[:end].rstrip().endswith(b"{") else b","
    return b"".join((plain[:end], comma, b'"model":', msgspec.json.encode(model), plain[end:]))


def _encoded(plain: bytes, content_encoding: str | None) -> bytes:
    encoding = (content_encoding or "").lower()
    if "gzip" in encoding:
        return gzip.compress(plain, _GZIP_LEVEL, mtime=0)
    return zstd.compress(plain) if "zstd" in encoding else plain
