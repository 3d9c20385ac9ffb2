"""Seconds that the request's own prefill takes, dearer where the fleet is behind."""

from __future__ import annotations

from tidegate.domain.pick.situation import Situation


def prefill(situation: Situation) -> list[float]:
    """uncached tokens × seconds a token × (1 + price · the fleet's backlog).

    Near saturation a plain sum scatters prefixes over the fleet and loses the hits that would have relieved it.
    """
    price = (1 + situation.settings.price * situation.backlog) / 1000
    return [
        tokens * replica.ms_per_token * price
        for tokens, replica in zip(situation.uncached, situation.replicas, strict=True)
    ]
