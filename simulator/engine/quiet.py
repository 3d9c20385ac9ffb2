"""A run of steps in which the same sequences decode: each lasts a little longer than the one before."""

from __future__ import annotations

from math import sqrt
from typing import NamedTuple


class QuietRun(NamedTuple):
    """Steps of `first`, `first + growth`, `first + 2·growth` … seconds. `first` is above 0, `growth` at least 0."""

    first: float
    growth: float

    def seconds(self, steps: int) -> float:
        """How long the first `steps` of them last together."""
        return self.first * steps + self.growth * (steps * (steps - 1) / 2)

    def steps_within(self, seconds: float, most: int) -> int:
        """How many of the first `most` end within `seconds`: the root of a quadratic, put right by one for rounding."""
        if most < 1 or seconds < self.first:
            return 0
        if self.seconds(most) <= seconds:
            return most
        steps = min(most, int(self._root(seconds)))
        while self.seconds(steps) > seconds:
            steps -= 1
        while steps < most and self.seconds(steps + 1) <= seconds:
            steps += 1
        return steps

    def _root(self, seconds: float) -> float:
        if not self.growth:
            return seconds / self.first
        linear = self.first - self.growth / 2
        return 2 * seconds / (linear + sqrt(linear * linear + 2 * self.growth * seconds))
