"""Steadiness: shares average out noise for a minute, and still follow a replica that changed within seconds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

FRESH_SECONDS: Final = 2.0
"""How long a share counts as averaged when nothing is known of it, or it was alarmed: it follows within seconds."""
ALARM_SECONDS: Final = 1.5
"""How long a share must have been off, to one side, before that is more than noise."""
CALMED_PART: Final = 0.5
"""An alarm ends when no more than this part of what raised it is left: else the rest would be averaged out slowly."""
LEVEL_SECONDS: Final = 12.0
"""Time constant of what all replicas of a cluster do alike. It changes no share."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SteadySettings:
    """`settle_seconds` (2…3600) is the longest average; a deviation of `alarm_ratio` (0.05…0.95) begins a new one."""

    settle_seconds: float = 120.0
    alarm_ratio: float = 0.42


DEFAULT: Final = SteadySettings()


@dataclass(frozen=True, slots=True)
class Steady:
    """One replica's steady value, for how many seconds it has been averaged, and for how long its target has been off.

    `off_seconds` is below 0 where the target lies below the value.
    """

    value: float
    age_seconds: float = FRESH_SECONDS
    off_seconds: float = 0.0


def steady(
    before: Mapping[str, Steady],
    targets: Mapping[str, float],
    seconds: float,
    settings: SteadySettings = DEFAULT,
) -> dict[str, Steady]:
    """Follow `targets` (above 0) of one cluster for `seconds`; by address, as `targets`.

    What all do alike is taken out first: q = Σ targets / Σ values, over those that had a value. Then each value v
    takes v ← (v + (target/q − v)·seconds / age)·(1 + (q − 1)·seconds / 12), where age is the time since the average
    began, 2 s at least and `settle_seconds` at most: the mean of all that was seen since, which is how an average
    of a constant with noise converges fastest. An address without value begins at its target, on the level of the
    others. A gain above 1 counts as 1, so that a late tick does not overshoot.

    One whose target has changed by a factor of 1 − `alarm_ratio`, or by its inverse, against what the others did, and
    for 1.5 s, begins its average anew: it follows within seconds, until half of that deviation is left.

    With constant targets every value's share approaches its target's share; targets that move in proportion move
    no share.
    """
    known = {address: before[address].value for address in targets if address in before}
    was, now = sum(known.values()), sum(targets[address] for address in known)
    common = now / was if was > 0 else 1.0
    level = 1.0 + (common - 1.0) * min(1.0, seconds / LEVEL_SECONDS)
    followed = {}
    for address, target in targets.items():
        if address not in known:
            followed[address] = Steady(target * level / common)
            continue
        one = before[address]
        others = _ratio(now - target, was - one.value) if len(known) > 1 else target / one.value
        off_seconds = _lasting(one.off_seconds, target / one.value / others, seconds, settings.alarm_ratio)
        followed[address] = _followed(one, target / common, level, off_seconds, seconds, settings)
    return followed


def _followed(
    before: Steady, target: float, level: float, off_seconds: float, seconds: float, settings: SteadySettings
) -> Steady:
    alarmed = abs(off_seconds) >= ALARM_SECONDS
    age = min(before.age_seconds, FRESH_SECONDS) if alarmed else before.age_seconds
    value = (before.value + (target - before.value) * min(1.0, seconds / age)) * level
    return Steady(value, min(max(FRESH_SECONDS, settings.settle_seconds), age + seconds), off_seconds)


def _lasting(before: float, change: float, seconds: float, alarm_ratio: float) -> float:
    """For how long a target has been off by that much or more to the same side; below 0 where that is downwards."""
    least = 1.0 - alarm_ratio * (CALMED_PART if abs(before) >= ALARM_SECONDS else 1.0)
    if change <= least:
        return min(0.0, before) - seconds
    if change >= 1.0 / least:
        return max(0.0, before) + seconds
    return 0.0


def _ratio(above: float, below: float) -> float:
    """`above / below`, 1 where rounding left nothing of them."""
    return above / below if above > 0 and below > 0 else 1.0
