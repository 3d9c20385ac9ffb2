"""What the weight rule remembers of one replica between ticks, and the part of it that `explain:` publishes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from tidegate.domain.capacity import NOTHING, Measured
from tidegate.domain.ewma import DEFAULT as DEFAULT_EWMA
from tidegate.domain.ewma import EwmaSettings, Smoothed, settled
from tidegate.domain.steady import FRESH_SECONDS, Steady

DIGITS: Final = 5
"""Significant digits of what is published: finer than a weight's thousandths, and short to read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """One replica after a decision at `at_ms` (Unix milliseconds).

    `weight` is what Envoy got (0…1000) and `automatic` what it would get without orders; `share` is the latter before
    rounding (0…1, 0 while it took no traffic). `ramping_seconds` is how long it has been growing into its share, None
    when it has grown. `smoothed` took its last input at `smoothed_at_ms`.
    """

    at_ms: int
    weight: int
    automatic: int
    share: float
    ramping_seconds: float | None = None
    smoothed: Smoothed | None = None
    smoothed_at_ms: int = 0
    steady: Steady | None = None
    measured: Measured = NOTHING

    def published(self) -> dict[str, Any]:
        """The fields of `explain:` from which `remembered` goes on. Absent is unknown."""
        smoothed, steady, measured = self.smoothed, self.steady, self.measured
        told = {
            "at_ms": self.at_ms,
            "weight": self.weight,
            "share": _short(self.share),
            "ramping_seconds": _short(self.ramping_seconds),
            "smoothed": _short(smoothed.value if smoothed else None),
            "plain_ewma": _short(smoothed.plain if smoothed else None),
            "steady": _short(steady.value if steady else None),
            "averaged_seconds": _short(steady.age_seconds if steady else None),
            "pace": _short(measured.pace),
            "width": _short(measured.width),
            "width_spells": measured.spells or None,
            "saturated_tokens_per_second": _short(measured.saturated_tokens_per_second),
        }
        return {name: value for name, value in told.items() if value is not None}


def remembered(told: Mapping[str, Any], ewma: EwmaSettings = DEFAULT_EWMA) -> Memory | None:
    """The memory that `told`, a replica's `explain`, holds; None where it holds no automatic weight.

    Numbers that are none, or out of range, are unknown: whoever wrote them, weights go on.
    """
    automatic, weight = _whole(told.get("automatic")), _whole(told.get("weight"))
    if automatic is None:
        return None
    share = _number(told.get("share"), most=1.0)
    smoothed, steady = _number(told.get("smoothed"), most=1.0), _number(told.get("steady"))
    at_ms = int(_number(told.get("at_ms")) or 0)
    return Memory(
        at_ms=at_ms,
        weight=automatic if weight is None else weight,
        automatic=automatic,
        share=automatic / 1000 if share is None else share,
        ramping_seconds=_number(told.get("ramping_seconds")),
        smoothed=None if smoothed is None else settled(smoothed, ewma),
        smoothed_at_ms=at_ms,
        steady=Steady(steady, max(FRESH_SECONDS, _number(told.get("averaged_seconds")) or 0.0)) if steady else None,
        measured=Measured(
            pace=_number(told.get("pace")) or None,
            width=_number(told.get("width")) or None,
            spells=int(_number(told.get("width_spells")) or 0),
            saturated_tokens_per_second=_number(told.get("saturated_tokens_per_second")),
        ),
    )


def _short(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.{DIGITS}g}")


def _number(value: object, most: float = math.inf) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value <= most and math.isfinite(value) else None


def _whole(value: object) -> int | None:
    number = _number(value, most=1000.0)
    return None if number is None or number != int(number) else int(number)
