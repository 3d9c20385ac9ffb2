"""Acts in force in the hash `acts`, notices in the list `inbox` and the hash `notices`, and back.

inbox, and {key} of notices
           JSON: {key, cause, version_ms, first_ms, last_ms, ended_ms, end_heard_ms, from_ms, until_ms, orders:
           [{rule, deed, for_ms, at_most_ms, dry_run}], cancelled}
.          a field of `notices` that is always there: without it the store was emptied

{source} of acts
           JSON: [{id, deed: {kind, cluster, replica, model, to, by, ratio, classes, less_urgent_than, what, parts},
           rule, cause, since_ms, until_ms, dry_run}]
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from tidegate.domain.actions.act import Act
from tidegate.domain.actions.notice import Notice

_encoder: Final = msgspec.json.Encoder()
_decoder: Final = msgspec.json.Decoder(list[Act])
_notice_decoder: Final = msgspec.json.Decoder(Notice)

KEPT_MARK: Final = "."
ALERTS: Final = "alerts"
"""The source of acts that follow from notices."""


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


def encode_notice(notice: Notice) -> bytes:
    """An entry of `inbox`, a field of `notices`."""
    return _encoder.encode(notice)


def decode_notices(entries: Iterable[Any]) -> list[Notice]:
    """The notices among them; what is not of that shape is left out."""
    return [one for raw in entries if (one := _decoded_notice(raw)) is not None]


def _decoded_notice(raw: Any) -> Notice | None:
    try:
        return _notice_decoder.decode(raw) if isinstance(raw, bytes) else None
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
