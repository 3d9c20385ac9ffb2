"""Seconds that the requests which decode there wait for this prefill."""

from __future__ import annotations

from tidegate.domain.pick.situation import Situation


def interference(situation: Situation) -> list[float] | None:
    """uncached tokens × seconds a token × running × `interference`."""
    each = situation.settings.interference
    if not each:
        return None
    return [
        tokens * replica.delay * each for tokens, replica in zip(situation.uncached, situation.replicas, strict=True)
    ]
