"""A histogram of plain numbers for a hot path: a few additions an observation, a metric only when it is scraped."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate

from prometheus_client.metrics_core import HistogramMetricFamily
from prometheus_client.samples import Exemplar


class Buckets:
    """Counts of values up to each bound (the bound included) and above the last. Belongs to one event loop.

    A bucket keeps the newest value that had a trace as its exemplar: what OpenMetrics shows beside the bucket, by which
    one finds a request that was as slow as that.
    """

    __slots__ = ("_bounds", "_counts", "_exemplars", "_sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0
        self._exemplars: dict[int, Exemplar] = {}

    def add(self, value: float, trace_id: str | None = None) -> None:
        """One observation; `trace_id` (32 hexadecimal digits) is that of the sampled trace that it belongs to."""
        place = bisect_left(self._bounds, value)
        self._counts[place] += 1
        self._sum += value
        if trace_id is not None:
            self._exemplars[place] = Exemplar({"trace_id": trace_id}, value, time.time())

    def into(self, family: HistogramMetricFamily, labels: Sequence[str]) -> None:
        """Add what was counted to a family, under these label values."""
        bounds = [*(str(bound) for bound in self._bounds), "+Inf"]
        buckets: list[tuple[str, float] | tuple[str, float, Exemplar]] = []
        for place, (bound, count) in enumerate(zip(bounds, accumulate(self._counts), strict=True)):
            exemplar = self._exemplars.get(place)
            buckets.append((bound, count) if exemplar is None else (bound, count, exemplar))
        family.add_metric(labels, buckets, self._sum)
