"""Means over seeds, and how sure they are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import mean, stdev
from typing import Final, NamedTuple

_T95: Final = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228),
    *(2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086),
    *(2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042),
)
"""Student's t, two-sided 95 %, for 1 to 30 degrees of freedom."""


class Estimate(NamedTuple):
    """A mean and half the width of its 95 % interval; NaN from one seed alone."""

    mean: float
    half_width: float


def estimate(values: Sequence[float]) -> Estimate:
    """Student's interval of the mean of at least one value: mean ± t · s / √n."""
    if len(values) < 2:
        return Estimate(mean(values), math.nan)
    t = _T95[min(len(values) - 1, len(_T95)) - 1]
    return Estimate(mean(values), t * stdev(values) / math.sqrt(len(values)))
