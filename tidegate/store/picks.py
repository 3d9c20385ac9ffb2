"""What instances of ext_proc tell one another of their dispatches, and the codec of that message.

    [ instance, [ [ cluster, [ address, at_ms, prefill_tokens, kv_tokens, prompts, [mark …], [end …] ] ] … ] ]

MessagePack, since marks are 64-bit numbers. One message holds what was sent within some milliseconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from tidegate.domain.pick.record import DispatchRecord

LARGEST_TOKENS: Final = 10**9
"""A request of more tokens than this is none."""


class PickBatch(msgspec.Struct, frozen=True, array_like=True):
    """Dispatches of `instance`, oldest first: (cluster, record)."""

    instance: str
    picks: Sequence[tuple[str, DispatchRecord]]


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(PickBatch)


def encode_picks(batch: PickBatch) -> bytes:
    """One message."""
    return _encoder.encode(batch)


def decode_picks(message: bytes) -> PickBatch | None:
    """The batch of a message, None when it is not one. Records that cannot be are left out."""
    try:
        batch = _decoder.decode(message)
    except (msgspec.DecodeError, UnicodeError):
        return None
    if all(_plausible(record) for _, record in batch.picks):
        return batch
    return PickBatch(batch.instance, [pick for pick in batch.picks if _plausible(pick[1])])


def _plausible(record: DispatchRecord) -> bool:
    return (
        0 <= record.at_ms < 1 << 53
        and 0 <= record.prefill_tokens <= LARGEST_TOKENS
        and 0 <= record.kv_tokens <= LARGEST_TOKENS
        and 1 <= record.prompts <= LARGEST_TOKENS
        and len(record.marks) == len(record.ends)
    )
