"""Seconds that the request's own decoding takes longer beside what runs there."""

from __future__ import annotations

from tidegate.domain.pick.situation import Situation


def decode(situation: Situation) -> list[float] | None:
    """output tokens × `decode` × what the sequences there and their contexts add to a step.

    That is (running + queued) · t_seq + (context in use + queued) · t_ctx.
    """
    tokens = situation.work.output_tokens * situation.settings.decode
    return [replica.beside * tokens for replica in situation.replicas] if tokens else None
