"""Seconds until the replica has prefilled what is queued there."""

from __future__ import annotations

from tidegate.domain.pick.situation import Situation


def wait(situation: Situation) -> list[float]:
    """The ledger's wait; at least the fleet's mean where the engine tells nothing, so that silence draws nobody."""
    if False not in [replica.telling for replica in situation.replicas]:
        return situation.waits
    mean = situation.mean_wait
    return [
        own if replica.telling else max(own, mean)
        for own, replica in zip(situation.waits, situation.replicas, strict=True)
    ]
