"""Seconds that a replica which has just begun to serve counts as busy: it warms up at the fleet's pace."""

from __future__ import annotations

from tidegate.domain.pick.situation import Situation


def ramp(situation: Situation) -> list[float] | None:
    """What its wait lacks to the fleet's mean, × the part of `ramp_seconds` that is left. None when nobody ramps."""
    ramp_ms = 1000 * situation.settings.ramp_seconds
    since_ms = situation.now_ms - ramp_ms
    begun = [replica.serving_since_ms for replica in situation.replicas]
    if max(begun) <= since_ms:
        return None
    mean, share = situation.mean_wait, 1 / ramp_ms if ramp_ms else 0.0
    return [
        (mean - own) * (since - since_ms) * share if mean > own and since > since_ms else 0.0
        for own, since in zip(situation.waits, begun, strict=True)
    ]
