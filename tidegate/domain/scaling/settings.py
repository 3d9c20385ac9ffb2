"""How a cluster's replica target is made: the values in force, and the names by which operators tune them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from tidegate.domain.scaling.order import ORDER
from tidegate.domain.tunable import Tunable, Value, read_fields, values_of


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleSettings:
    """Values of one cluster. `TUNABLES` gives each its unit, range and meaning; the defaults agree."""

    up_at: float = 0.85
    down_at: float = 0.4
    aim: float = 0.65
    least: int = 1
    most: int = 1000
    speed: float = 2.0
    up_seconds: float = 30.0
    down_seconds: float = 300.0
    idle_seconds: float = 600.0
    up_cooldown_seconds: float = 60.0
    down_cooldown_seconds: float = 300.0
    replicas: str = "auto"

    @property
    def aimed(self) -> float:
        """`aim`, no higher than `up_at`: what was added must not ask for more by itself."""
        return min(self.aim, self.up_at)

    @property
    def low(self) -> float:
        """`down_at`, no higher than `aimed`: what was taken away must not be missed at once."""
        return min(self.down_at, self.aimed)

    def bounded(self, replicas: int) -> int:
        """`replicas`, at least `least` and at most `most`; of a `least` above `most`, `most` holds."""
        return min(self.most, max(self.least, replicas))


DEFAULT: Final = ScaleSettings()


def _seconds(name: str, doc: str) -> Tunable:
    default = getattr(DEFAULT, name.removeprefix("scale."))
    return Tunable(name=name, default=default, unit="s", most=86_400.0, doc=doc)


_BY_FIELD: Final[Mapping[str, Tunable]] = {
    "up_at": Tunable(
        name="load.scale_up_at",
        default=DEFAULT.up_at,
        least=0.05,
        most=1.0,
        doc="mean load of the replicas wished for from which on more are asked for",
    ),
    "down_at": Tunable(
        name="scale.down_at",
        default=DEFAULT.down_at,
        most=1.0,
        doc="mean load below which fewer are asked for; above scale.aim it counts as that",
    ),
    "aim": Tunable(
        name="scale.aim",
        default=DEFAULT.aim,
        least=0.05,
        most=1.0,
        doc="mean load that a changed target is to lead to; above load.scale_up_at it counts as that",
    ),
    "least": Tunable(
        name="scale.min",
        default=DEFAULT.least,
        most=100_000,
        doc="fewest replicas; only 0 lets an idle cluster go to none",
    ),
    "most": Tunable(
        name="scale.max",
        default=DEFAULT.most,
        most=100_000,
        doc="most replicas, also where scale.min is more",
    ),
    "speed": Tunable(
        name="upscale.speed",
        default=DEFAULT.speed,
        least=1.0,
        most=100.0,
        doc="largest factor by which one decision raises a target, which it may always by 1; 2 doubles",
    ),
    "up_seconds": _seconds("scale.up_seconds", "how long the load must be high before more are asked for"),
    "down_seconds": _seconds("scale.down_seconds", "how long it must be low before fewer are asked for"),
    "idle_seconds": _seconds("scale.idle_seconds", "how long nothing must run before scale.min is asked for"),
    "up_cooldown_seconds": _seconds("scale.up_cooldown_seconds", "least time from any change to one upwards"),
    "down_cooldown_seconds": _seconds("scale.down_cooldown_seconds", "least time from any change to one downwards"),
    "replicas": ORDER,
}

TUNABLES: Final[tuple[Tunable, ...]] = tuple(_BY_FIELD.values())
_FIELDS: Final[Mapping[str, str]] = {tunable.name: field for field, tunable in _BY_FIELD.items()}


def tuned(base: ScaleSettings, fields: Mapping[str, str], last: ScaleSettings) -> tuple[ScaleSettings, dict[str, str]]:
    """`base` with what `fields` (name → text) sets, and why others are refused; a bad value leaves that of `last`."""
    values, refused = read_fields(TUNABLES, fields, values_of(last, TUNABLES, _FIELDS))
    changed: dict[str, Any] = {_FIELDS[name]: value for name, value in values.items()}
    return replace(base, **changed), refused


def shown(settings: ScaleSettings) -> dict[str, Value]:
    """The values in force by tunable name."""
    return values_of(settings, TUNABLES, _FIELDS)
