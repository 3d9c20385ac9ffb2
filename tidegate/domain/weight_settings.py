"""How a cluster's weights are made: the values in force, and the names by which operators tune them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final

from tidegate.domain.tunable import Tunable, Value, read_fields, values_of


class WeightPolicy(StrEnum):
    """What the automatic weight follows.

    `STATIC`: the number format's capacity alone. `LOAD`: measured capacity × (1 − load index). `LATENCY`: measured
    capacity × (1 − the index's latency part).
    """

    STATIC = "static"
    LOAD = "load"
    LATENCY = "latency"


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightSettings:
    """Values of one cluster. `TUNABLES` gives each its unit, range and meaning; the defaults agree."""

    policy: str = WeightPolicy.LOAD.value
    least: float = 0.01
    most: float = 0.99
    ramp_seconds: float = 15.0
    most_step: float = 2.0
    settle_seconds: float = 120.0
    alarm_ratio: float = 0.42


DEFAULT: Final = WeightSettings()

_BY_FIELD: Final[Mapping[str, Tunable]] = {
    "policy": Tunable(
        name="weight.policy",
        default=DEFAULT.policy,
        choices=tuple(policy.value for policy in WeightPolicy),
        doc="what automatic weights follow: the number format alone, the load index, or its latency part",
    ),
    "least": Tunable(
        name="weight.min",
        default=DEFAULT.least,
        least=0.001,
        most=1.0,
        doc="smallest automatic weight of a replica that serves, as a part of 1000",
    ),
    "most": Tunable(
        name="weight.max",
        default=DEFAULT.most,
        least=0.001,
        most=1.0,
        doc="largest automatic weight, as a part of 1000; below weight.min it counts as that",
    ),
    "ramp_seconds": Tunable(
        name="weight.ramp_seconds",
        default=DEFAULT.ramp_seconds,
        unit="s",
        most=3600.0,
        doc="how long a replica that begins to serve takes to reach its share; 0 is at once",
    ),
    "most_step": Tunable(
        name="weight.most_step",
        default=DEFAULT.most_step,
        least=1.01,
        most=1000.0,
        doc="largest factor by which an automatic weight changes in a second, but towards zero",
    ),
    "settle_seconds": Tunable(
        name="weight.settle_seconds",
        default=DEFAULT.settle_seconds,
        unit="s",
        least=2.0,
        most=3600.0,
        doc="over how long noise is averaged out of shares while nothing changes",
    ),
    "alarm_ratio": Tunable(
        name="weight.alarm_ratio",
        default=DEFAULT.alarm_ratio,
        least=0.05,
        most=0.95,
        doc="part of a share lost (or, as a factor, won) against the others from which on it is followed in seconds",
    ),
}

TUNABLES: Final[tuple[Tunable, ...]] = tuple(_BY_FIELD.values())
_FIELDS: Final[Mapping[str, str]] = {tunable.name: field for field, tunable in _BY_FIELD.items()}


def tuned(
    base: WeightSettings, fields: Mapping[str, str], last: WeightSettings
) -> tuple[WeightSettings, dict[str, str]]:
    """`base` with what `fields` (name → text) sets, and why others are refused; a bad value leaves that of `last`."""
    values, refused = read_fields(TUNABLES, fields, values_of(last, TUNABLES, _FIELDS))
    changed: dict[str, Any] = {_FIELDS[name]: value for name, value in values.items()}
    return replace(base, **changed), refused


def shown(settings: WeightSettings) -> dict[str, Value]:
    """The values in force by tunable name."""
    return values_of(settings, TUNABLES, _FIELDS)
