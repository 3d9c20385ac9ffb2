"""How many replicas a cluster should have: what its load asks for, within bounds, under orders.

    demand  = ready replicas × their mean load × (1 + requests that wait for each that runs)
    up      demand / target > load.scale_up_at for scale.up_seconds      → ceil(demand / scale.aim), at most
                                                                           ceil(target × upscale.speed)
    down    demand / target < scale.down_at for scale.down_seconds       → ceil(demand / scale.aim), at least half
    idle    no request anywhere for scale.idle_seconds                   → scale.min, which may be 0
    none    a target of 0, and a request comes                           → 1, or scale.min, at once

Who wins: an operator's number; then alerts, within the bounds; then scale.min and scale.max; then the load.

The load is a mean, times the number of replicas: a sum, which is what more replicas share among them. A quantile would
follow the one replica that is slow, which wants a smaller weight and not a larger cluster.

The load is set against the replicas wished for, not against those that are there: what is asked for and not there yet
counts as coming, so that nothing is asked for twice, and what leaves does not count. From one steady demand follows
one target: after a change to ceil(demand / aim) the load is at most `aim`, which is no more than `up_at`, and fewer
would not be enough.

Upscaling speed, elsewhere: Kubernetes' HPA doubles at most (100 % in 15 s, or 4 pods) and shrinks to the most that it
recommended within 5 minutes; Ray's cluster autoscaler lets `upscaling_speed` (1.0) × the present nodes be pending,
which doubles as well; Ray Serve multiplies the difference by `upscaling_factor` (1.0) after 30 s up and 600 s down, and
skips the wait at 0 replicas. Here the speed is the factor itself: 2.0 is HPA's and Ray's default.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from tidegate.domain.actions.effects import Scale
from tidegate.domain.lifetime import duration_text
from tidegate.domain.scaling.crew import Crew
from tidegate.domain.scaling.settings import ScaleSettings

_ROUNDING: Final = 1e-9
"""How far above a whole number a quotient may lie and still be it."""


class Reason(StrEnum):
    """Why a target is what it is; a label of metrics."""

    OBSERVED = "observed"
    LOAD = "load"
    LATENCY = "latency"
    LOW = "low"
    IDLE = "idle"
    BOUNDS = "bounds"
    ALERT = "alert"
    OPERATOR = "operator"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """So many replicas (at least 0), why, and since when (Unix milliseconds). `why` is a sentence."""

    desired: int
    reason: Reason
    since_ms: int
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sustained:
    """Since when something has been so at every look, and the most careful number that any of them asked for."""

    since_ms: int
    wanted: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """What a cluster is told (`target`), what its load alone asks for (`automatic`), and what has begun to hold.

    `idle_since_ms` is when its last request was gone.
    """

    target: Target
    automatic: Target
    up: Sustained | None = None
    low: Sustained | None = None
    idle_since_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Orders:
    """What others want: an operator's number, and what alerts add up to."""

    replicas: int | None = None
    alert: Scale | None = None


FREE: Final = Orders()


def decide(before: Course | None, crew: Crew, orders: Orders, settings: ScaleSettings, now_ms: int) -> Course:
    """The course after one look. Without `before`, the replicas that are there are the target.

    Unknown replicas: none is taken away while there is one, and for more they count as if they had no load.
    """
    course = before or _observed(crew, settings, now_ms)
    course = _followed(course, crew, settings, now_ms)
    changed = _step(course, crew, settings, now_ms)
    if changed is not None:
        course = Course(target=course.target, automatic=changed)
    return replace(course, target=_told(course, orders, settings, now_ms))


def _observed(crew: Crew, settings: ScaleSettings, now_ms: int) -> Course:
    found = settings.bounded(crew.present)
    target = Target(desired=found, reason=Reason.OBSERVED, since_ms=now_ms, why=f"{crew.present} are there")
    return Course(target=target, automatic=target)


# --- what has held for how long -----------------------------------------------------------------------------


def _followed(course: Course, crew: Crew, settings: ScaleSettings, now_ms: int) -> Course:
    """A look without a known load ends what would take replicas away, and says nothing of the rest."""
    demand, at = crew.demand, course.automatic.desired
    if demand is None:
        return replace(course, low=None, idle_since_ms=None)
    wanted = max(1, _ceil(demand / settings.aimed))
    load = demand / max(1, at)
    up = max(wanted, at + 1) if load > settings.up_at else None
    low = wanted if load < settings.low and not crew.unknown and not crew.asked and wanted < at else None
    begun = course.idle_since_ms if course.idle_since_ms is not None else now_ms
    return replace(
        course,
        up=_held(course.up, up, now_ms, min),
        low=_held(course.low, low, now_ms, max),
        idle_since_ms=begun if crew.idle and not crew.unknown else None,
    )


def _held(
    before: Sustained | None, wanted: int | None, now_ms: int, careful: Callable[[int, int], int]
) -> Sustained | None:
    if wanted is None:
        return None
    if before is None:
        return Sustained(since_ms=now_ms, wanted=wanted)
    return Sustained(since_ms=before.since_ms, wanted=careful(before.wanted, wanted))


# --- what follows -------------------------------------------------------------------------------------------


def _step(course: Course, crew: Crew, settings: ScaleSettings, now_ms: int) -> Target | None:
    """The automatic target where it changes: the first of bounds, waking, up, idle, down that says so."""
    at = course.automatic
    bounded = settings.bounded(at.desired)
    if bounded != at.desired:
        return _target(bounded, Reason.BOUNDS, now_ms, f"between {settings.bounded(0)} and {settings.most}")
    if crew.asked and not at.desired and settings.most:
        return _target(max(1, settings.least), Reason.LOAD, now_ms, "requests come and there is no replica")
    rested = (now_ms - at.since_ms) / 1000
    if rested >= settings.up_cooldown_seconds and (up := _up(course, crew, settings, now_ms)):
        return up
    if rested >= settings.down_cooldown_seconds:
        return _idle(course, settings, now_ms) or _down(course, crew, settings, now_ms)
    return None


def _up(course: Course, crew: Crew, settings: ScaleSettings, now_ms: int) -> Target | None:
    at, up = course.automatic.desired, course.up
    if up is None or not _over(up.since_ms, settings.up_seconds, now_ms):
        return None
    most = max(at + 1, _ceil(at * settings.speed))
    desired = settings.bounded(min(up.wanted, most))
    reason = Reason.LATENCY if crew.part == "latency" else Reason.LOAD
    high = f"above {settings.up_at:g} for {duration_text(now_ms - up.since_ms)}"
    return _target(desired, reason, now_ms, f"{_load_words(course, crew)}, {high}") if desired > at else None


def _down(course: Course, crew: Crew, settings: ScaleSettings, now_ms: int) -> Target | None:
    at, low = course.automatic.desired, course.low
    if low is None or not _over(low.since_ms, settings.down_seconds, now_ms):
        return None
    desired = settings.bounded(max(low.wanted, _ceil(at / 2)))
    said = f"below {settings.low:g} for {duration_text(now_ms - low.since_ms)}"
    return _target(desired, Reason.LOW, now_ms, f"{_load_words(course, crew)}, {said}") if desired < at else None


def _idle(course: Course, settings: ScaleSettings, now_ms: int) -> Target | None:
    since_ms, least = course.idle_since_ms, settings.bounded(0)
    if since_ms is None or not _over(since_ms, settings.idle_seconds, now_ms) or least >= course.automatic.desired:
        return None
    return _target(least, Reason.IDLE, now_ms, f"no request for {duration_text(now_ms - since_ms)}")


def _told(course: Course, orders: Orders, settings: ScaleSettings, now_ms: int) -> Target:
    """The automatic target, or what somebody wants instead. It began when its number did."""
    wanted = course.automatic
    if orders.replicas is not None:
        wanted = _target(orders.replicas, Reason.OPERATOR, now_ms, f"an operator wants {orders.replicas}")
    elif orders.alert is not None:
        desired = settings.bounded(orders.alert.of(wanted.desired))
        wanted = _target(desired, Reason.ALERT, now_ms, f"act {orders.alert.act}; without it {wanted.desired}")
    same = wanted.desired == course.target.desired
    return replace(wanted, since_ms=course.target.since_ms if same else now_ms)


def _target(desired: int, reason: Reason, now_ms: int, why: str) -> Target:
    return Target(desired=desired, reason=reason, since_ms=now_ms, why=why)


def _load_words(course: Course, crew: Crew) -> str:
    at = max(1, course.automatic.desired)
    waits = f", {crew.backlog:.1f} wait for each that runs" if crew.backlog else ""
    return (
        f"load {(crew.demand or 0.0) / at:.2f} of {at} wanted ({crew.ready} ready at {crew.load or 0.0:.2f}, "
        f"{crew.coming} coming{waits})"
    )


def _over(since_ms: int, seconds: float, now_ms: int) -> bool:
    return now_ms - since_ms >= seconds * 1000


def _ceil(quotient: float) -> int:
    return math.ceil(quotient - _ROUNDING)
