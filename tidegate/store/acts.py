"""Acts in force, in the hash `acts`, and back.

{source}   JSON: [{id, deed: {kind, cluster, replica, model, to, by, ratio, classes, less_urgent_than, what, parts},
           rule, cause, since_ms, until_ms, dry_run}]
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from tidegate.domain.actions.act import Act

_encoder: Final = msgspec.json.Encoder()
_decoder: Final = msgspec.json.Decoder(list[Act])


def encode_acts(acts: Sequence[Act]) -> bytes:
    """The field of one source."""
    return _encoder.encode(acts)


def decode_acts(fields: Iterable[Any]) -> list[Act]:
    """The acts of every source; a field that is not of that shape is left out."""
    return [act for raw in fields for act in _decoded(raw)]


def _decoded(raw: Any) -> list[Act]:
    try:
        return _decoder.decode(raw) if isinstance(raw, bytes) else []
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return []
