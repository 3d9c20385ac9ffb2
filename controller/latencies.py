"""The p99 of replicas whose engines tell none: what Envoy saw, without what the gateway held."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from tidegate.domain.outcomes.report import Report
from tidegate.domain.outcomes.sketch import Sketch

LEAST_REQUESTS: Final = 20
"""Of fewer, the slowest alone would be the p99."""
PART: Final = 0.99

Place = tuple[str, str]


def latencies(reports: Iterable[Report], wanted: Collection[Place]) -> dict[Place, float]:
    """Milliseconds by cluster and address, of the wanted ones that served enough requests in the last minute."""
    found: dict[Place, Sketch] = {}
    for report in reports:
        for place in wanted:
            told = report.clusters.get(place[0], {}).get(place[1])
            if told is not None:
                found.setdefault(place, Sketch()).merge(Sketch.of_bins(told.engine))
    enough = {place: sketch for place, sketch in found.items() if sketch.count >= LEAST_REQUESTS}
    return {place: p99 for place, sketch in enough.items() if (p99 := sketch.quantile_ms(PART)) is not None}
