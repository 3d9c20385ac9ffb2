"""Smoothing: a windowed EWMA that one outlier does not move, with the plain EWMA beside it for comparison."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from operator import mul
from statistics import median
from typing import Any, Final

from tidegate.domain.tunable import Tunable, Value, read_fields, values_of

MEDIAN_OF: Final = 5
"""Inputs of which the median goes into the window: up to two strange ones in five say nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EwmaSettings:
    """`alpha` (0.01…1) is what the newest input counts, `window` (1…1024) how many inputs are remembered."""

    alpha: float = 0.1
    window: int = 64


DEFAULT: Final = EwmaSettings()

_FIELDS: Final = {"ewma.alpha": "alpha", "ewma.window": "window"}

TUNABLES: Final = (
    Tunable(
        name="ewma.alpha",
        default=DEFAULT.alpha,
        least=0.01,
        most=1.0,
        doc="what the newest of the smoothed weight's inputs counts, four a second; 1 does not smooth",
    ),
    Tunable(
        name="ewma.window",
        default=DEFAULT.window,
        least=1,
        most=1024,
        unit="ticks",
        doc="how many inputs the smoothed weight remembers; older ones count nothing",
    ),
)


def tuned(base: EwmaSettings, fields: Mapping[str, str], last: EwmaSettings) -> tuple[EwmaSettings, dict[str, str]]:
    """`base` with what `fields` (name → text) sets, and why others are refused; a bad value leaves that of `last`."""
    values, refused = read_fields(TUNABLES, fields, values_of(last, TUNABLES, _FIELDS))
    changed: dict[str, Any] = {_FIELDS[name]: value for name, value in values.items()}
    return replace(base, **changed), refused


def shown(settings: EwmaSettings) -> dict[str, Value]:
    """The values in force by tunable name."""
    return values_of(settings, TUNABLES, _FIELDS)


@dataclass(frozen=True, slots=True)
class Smoothed:
    """`value` is the windowed EWMA, `plain` the ordinary one; `inputs` and `kept` are what both came from.

    `inputs` are the last five as they came, `kept` the medians in the window; newest last in both.
    """

    value: float
    plain: float
    inputs: tuple[float, ...]
    kept: tuple[float, ...]


def settled(value: float, settings: EwmaSettings = DEFAULT) -> Smoothed:
    """As if `value` had been the input for as long as the window remembers: what a takeover continues from."""
    return Smoothed(value, value, (value,) * MEDIAN_OF, (value,) * settings.window)


def smooth(before: Smoothed | None, value: float, settings: EwmaSettings = DEFAULT) -> Smoothed:
    """One more input. Without `before` it is the first, and the result is `value` itself.

    The input m(t) that counts is the median of the last five; the result is the mean of the last `window` of them,
    the one of k ticks ago weighted with (1 − α)^k. The plain EWMA is p ← p + α·(value − p), without median or window.

    Conditions of convergence, for 0 < α ≤ 1:

    - bounded: the result lies between the least and the greatest input that the window and the median remember.
    - monotone: from a settled state, a constant target is approached and never passed; k ticks after the median has
      turned (three ticks), the distance left is at most (1 − α)^k of the first one.
    - settled: where target and value agree (the gradient is zero) nothing moves; a constant target is met exactly
      `window` + 2 ticks after it became so, since nothing older is remembered.
    - immune to one outlier: among equal inputs one that is not, however far, changes nothing; nor do two in five.
    """
    if before is None:
        return Smoothed(value, value, (value,), (value,))
    inputs = (*before.inputs, value)[-MEDIAN_OF:]
    kept = (*before.kept, _median(inputs))[-settings.window :]
    plain = before.plain + settings.alpha * (value - before.plain)
    return Smoothed(_mean(kept, settings.alpha), plain, inputs, kept)


def _median(inputs: tuple[float, ...]) -> float:
    return sorted(inputs)[len(inputs) // 2] if len(inputs) % 2 else median(inputs)


def _mean(kept: tuple[float, ...], alpha: float) -> float:
    """The weighted mean, kept between the least and the greatest where rounding would leave them."""
    mean = sum(map(mul, kept, _weights(len(kept), alpha)))
    return float(min(max(kept), max(min(kept), mean)))


@lru_cache(maxsize=4096)
def _weights(count: int, alpha: float) -> tuple[float, ...]:
    """Shares of `count` inputs, oldest first; their sum is 1."""
    powers = [float((1 - alpha) ** age) for age in range(count - 1, -1, -1)]
    return tuple(power / sum(powers) for power in powers)
