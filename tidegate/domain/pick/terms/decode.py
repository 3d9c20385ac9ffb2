"""Seconds that the request's own decoding takes longer beside what runs there."""

from __future__ import annotations

from tidegate.domain.pick.situation import Situation


def decode(situation: Situation) -> list[float] | None:
    """output tokens × (requests there × t_seq + their context × t_ctx) × `decode`."""
    settings = situation.settings
    tokens = situation.work.output_tokens * settings.decode
    if not tokens:
        return None
    sequence, context = settings.sequence_seconds * tokens, settings.context_seconds * tokens
    return [
        (replica.running + len(replica.queued)) * sequence + (replica.context + replica.queued.kv_tokens) * context
        for replica in situation.replicas
    ]
