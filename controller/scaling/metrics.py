"""Replica targets as metrics: what an autoscaler follows. Only the controller that leads tells them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from prometheus_client import CollectorRegistry, Counter
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from tidegate.domain.scaling.crew import Crew
from tidegate.domain.scaling.rule import Course

FRESH_SECONDS: Final = 10.0
"""A controller that has not looked for so long does not lead, and tells nothing: two that differ would be summed."""


@dataclass(frozen=True, slots=True)
class Look:
    """What one look came to, for one cluster."""

    crew: Crew
    course: Course


class ScaleMetrics(Collector):
    """Registered when made; `close()` takes all off the registry. `seconds` is a clock that never goes back."""

    def __init__(self, registry: CollectorRegistry, seconds: Callable[[], float] = time.monotonic) -> None:
        self._registry, self._seconds = registry, seconds
        self._looks: Mapping[str, Look] = {}
        self._told_at = -FRESH_SECONDS
        self.changed = Counter(
            "tidegate_replicas_scaled_total",
            "Times that a cluster's replica target changed",
            ["cluster", "reason"],
            registry=registry,
        )
        registry.register(self)

    def tell(self, looks: Mapping[str, Look]) -> None:
        """What the leader sees and wants."""
        self._looks, self._told_at = looks, self._seconds()

    def collect(self) -> Iterator[Metric]:
        """The gauges; without a sample while nobody told any."""
        told = self._looks if self._seconds() - self._told_at < FRESH_SECONDS else {}
        for name, help_, value in _GAUGES:
            family = GaugeMetricFamily(name, help_, labels=["cluster"])
            for cluster, look in told.items():
                if (found := value(look)) is not None:
                    family.add_metric([cluster], found)
            yield family

    def close(self) -> None:
        """Unregister all."""
        self._registry.unregister(self)
        self._registry.unregister(self.changed)


_GAUGES: Final[tuple[tuple[str, str, Callable[[Look], float | None]], ...]] = (
    (
        "tidegate_scale_desired_replicas",
        "Replicas that the cluster should have",
        lambda look: look.course.target.desired,
    ),
    (
        "tidegate_scale_automatic_replicas",
        "Replicas that its load alone asks for",
        lambda look: look.course.automatic.desired,
    ),
    ("tidegate_scale_ready_replicas", "Replicas that take traffic", lambda look: look.crew.ready),
    ("tidegate_scale_coming_replicas", "Replicas that are loading", lambda look: look.crew.coming),
    ("tidegate_scale_leaving_replicas", "Replicas that are drained", lambda look: look.crew.leaving),
    (
        "tidegate_scale_unknown_replicas",
        "Replicas without a fresh sample, or out of reach",
        lambda look: look.crew.unknown,
    ),
    (
        "tidegate_scale_demand_replicas",
        "Full replicas that the cluster's requests would fill; absent while no load is known",
        lambda look: look.crew.demand,
    ),
)
