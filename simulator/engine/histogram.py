"""A histogram that takes a value many times at the price of one."""

from __future__ import annotations

from bisect import bisect_left


class Histogram:
    """Counts by upper bound (inclusive, ascending), with a last bucket for what is above all of them."""

    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def observe(self, value: float, times: int = 1) -> None:
        """Count `value` `times` times."""
        self.counts[bisect_left(self.bounds, value)] += times
        self.sum += value * times

    def observe_rising(self, first: float, rise: float, values: int, times: int) -> None:
        """Count `values` values, each `rise` (at least 0) above the one before, `times` times each."""
        self.sum += times * (values * first + rise * values * (values - 1) / 2)
        while values:
            bucket = bisect_left(self.bounds, first)
            here = values
            if bucket < len(self.bounds) and first + rise * (values - 1) > self.bounds[bucket]:
                here = min(values, int((self.bounds[bucket] - first) / rise) + 1)
            self.counts[bucket] += here * times
            first, values = first + rise * here, values - here

    @property
    def count(self) -> int:
        """How many values were counted."""
        return sum(self.counts)

    def cumulative(self) -> list[tuple[str, int]]:
        """Pairs of `le` and the count up to it, as Prometheus writes them; the last is +Inf."""
        pairs, total = [], 0
        for bound, count in zip((*self.bounds, float("inf")), self.counts, strict=True):
            total += count
            pairs.append(("+Inf" if bound == float("inf") else str(float(bound)), total))
        return pairs
