"""Seconds that a replica which has just begun to serve counts as busy: it warms up at the fleet's pace."""

from __future__ import annotations

from tidegate.domain.pick.situation import Situation


def ramp(situation: Situation) -> list[float] | None:
    """What its wait lacks to the fleet's mean, × the part of `ramp_seconds` that is left. None when nobody ramps."""
    ramp_ms = 1000 * situation.settings.ramp_seconds
    since_ms = situation.now_ms - ramp_ms
    if max([replica.serving_since_ms for replica in situation.replicas]) <= since_ms:
        return None
    mean = situation.mean_wait
    return [
        max(0.0, mean - own) * max(0.0, replica.serving_since_ms - since_ms) / ramp_ms
        for own, replica in zip(situation.waits, situation.replicas, strict=True)
    ]
