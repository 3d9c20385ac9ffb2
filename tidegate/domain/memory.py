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
"""Decimals of published shares: finer than a weight's thousandths, and short to read."""


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
        told: dict[str, Any] = {"at_ms": self.at_ms, "weight": self.weight, "share": round(self.share, DIGITS)}
        if self.ramping_seconds is not None:
            told["ramping_seconds"] = round(self.ramping_seconds, 2)
        if smoothed is not None:
            told["smoothed"], told["plain_ewma"] = round(smoothed.value, DIGITS), round(smoothed.plain, DIGITS)
        if steady is not None:
            told["steady"], told["averaged_seconds"] = round(steady.value, DIGITS), round(steady.age_seconds, 2)
        if measured.pace is not None:
            told["pace"] = round(measured.pace, 2)
        if measured.width is not None:
            told["width"], told["width_spells"] = round(measured.width, 2), measured.spells
        if measured.saturated_tokens_per_second is not None:
            told["saturated_tokens_per_second"] = round(measured.saturated_tokens_per_second, 1)
        return told


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


def _number(value: object, most: float = math.inf) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value <= most and math.isfinite(value) else None


def _whole(value: object) -> int | None:
    number = _number(value, most=1000.0)
    return None if number is None or number != int(number) else int(number)
