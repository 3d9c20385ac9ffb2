"""What is done about faults before anybody is called: a replica gets less, a cluster's requests are not tried again.

    part     of its traffic that a replica gets      ((1 − own fault ratio) / (1 − that of the others))²
    retries  of a cluster                            none from a fault ratio above `heal.retries_off_at` on

Both need `heal.min_requests` within the last minute, of what engines answered or should have: 4xx, 429 and 503 are
answers, and no faults. A replica is set against the others of its cluster: where all fail alike nobody is better, and
nobody is reduced. The part falls at once and grows no faster than from 0 to 1 in `heal.recover_seconds`; with too few
requests to tell it grows as well, so that it is found out. It is never 0: who gets nothing is never seen to be well
again. A replica that answers with faults alone is set aside for a while by other means (tidegate.domain.faults, Envoy).

Retries help where one replica fails, and multiply the load where all do: requests that a retry saved are no faults
here, so that the ratio is of those that retries did not help. They return from `heal.retries_on_at` down, and after a
minute of too few requests.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from tidegate.domain.faults import Ends
from tidegate.domain.tunable import Tunable, Value, read_fields, values_of

STEP: Final = 0.05
"""Parts are told in steps of this: each one that differs makes every weight be decided anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HealSettings:
    """Values of one cluster. `TUNABLES` gives each its unit, range and meaning; the defaults agree."""

    reduce_at: float = 0.1
    least: float = 0.05
    min_requests: int = 20
    recover_seconds: float = 120.0
    retries_off_at: float = 0.1
    retries_on_at: float = 0.05


DEFAULT: Final = HealSettings()

_BY_FIELD: Final[Mapping[str, Tunable]] = {
    "reduce_at": Tunable(
        name="heal.reduce_at",
        default=DEFAULT.reduce_at,
        most=1.0,
        doc="part of a replica's requests that are faults above which it gets less traffic; 1: never",
    ),
    "least": Tunable(
        name="heal.least",
        default=DEFAULT.least,
        least=STEP,
        most=1.0,
        doc="smallest part of its traffic that such a replica keeps",
    ),
    "min_requests": Tunable(
        name="heal.min_requests",
        default=DEFAULT.min_requests,
        least=1,
        most=1_000_000,
        doc="requests within a minute that it takes to judge a replica or a cluster",
    ),
    "recover_seconds": Tunable(
        name="heal.recover_seconds",
        default=DEFAULT.recover_seconds,
        unit="s",
        least=1.0,
        most=86_400.0,
        doc="how long a replica that got nothing would take to its whole traffic",
    ),
    "retries_off_at": Tunable(
        name="heal.retries_off_at",
        default=DEFAULT.retries_off_at,
        most=1.0,
        doc="part of a cluster's requests that are faults above which Envoy retries none; 1: never",
    ),
    "retries_on_at": Tunable(
        name="heal.retries_on_at",
        default=DEFAULT.retries_on_at,
        most=1.0,
        doc="part below which it retries again; above heal.retries_off_at it counts as that",
    ),
}

TUNABLES: Final[tuple[Tunable, ...]] = tuple(_BY_FIELD.values())
_FIELDS: Final[Mapping[str, str]] = {tunable.name: field for field, tunable in _BY_FIELD.items()}


def tuned(base: HealSettings, fields: Mapping[str, str], last: HealSettings) -> tuple[HealSettings, dict[str, str]]:
    """`base` with what `fields` (name → text) sets, and why others are refused; a bad value leaves that of `last`."""
    values, refused = read_fields(TUNABLES, fields, values_of(last, TUNABLES, _FIELDS))
    changed: dict[str, Any] = {_FIELDS[name]: value for name, value in values.items()}
    return replace(base, **changed), refused


def shown(settings: HealSettings) -> dict[str, Value]:
    """The values in force by tunable name."""
    return values_of(settings, TUNABLES, _FIELDS)


def added(ends: Iterable[Ends]) -> Ends:
    """All of them together."""
    parts = list(ends)
    return Ends(sum(one.faults for one in parts), sum(one.answers for one in parts))


def fault_ratio(ends: Ends, least: int = 1) -> float | None:
    """Faults of all, 0…1; None of fewer than `least` (at least 1) requests."""
    total = ends.faults + ends.answers
    return ends.faults / total if total >= max(1, least) else None


def part_of(own: Ends, others: Ends, before: float, seconds: float, settings: HealSettings) -> float:
    """The part (least…1) of its traffic that a replica gets, `seconds` after it got `before`.

    `own` and `others` are the last minute's ends of this replica, and of all others of its cluster together. It never
    rises with the replica's fault ratio.
    """
    goal = _goal(own, others, before, settings)
    if goal <= before:
        return goal
    return min(goal, before + max(0.0, seconds) / settings.recover_seconds)


def _goal(own: Ends, others: Ends, before: float, settings: HealSettings) -> float:
    """Where the part should be. Who is reduced stays so until its faults are half of what began it."""
    ratio, theirs = fault_ratio(own, settings.min_requests), fault_ratio(others)
    bearable = settings.reduce_at if before >= 1.0 else settings.reduce_at / 2
    if ratio is None or theirs is None or ratio <= bearable or ratio <= theirs:
        return 1.0
    return max(settings.least, ((1.0 - ratio) / (1.0 - theirs)) ** 2)


def told(part: float) -> float:
    """The part in whole steps, at least one."""
    return max(STEP, round(round(part / STEP) * STEP, 2))


def retries_cut(ends: Ends, settings: HealSettings, *, before: bool) -> bool | None:
    """Whether a cluster's requests are not tried again, where they were (`before` False) or were not.

    None: too few requests tell.
    """
    ratio = fault_ratio(ends, settings.min_requests)
    if ratio is None:
        return None
    return ratio > (min(settings.retries_on_at, settings.retries_off_at) if before else settings.retries_off_at)
