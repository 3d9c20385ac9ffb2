"""How long round trips to the store take and how often it fails: plain numbers, turned into metrics when scraped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from tidegate.buckets import Buckets
from tidegate.domain.errors import StoreError, StoreRefused

BOUNDS_SECONDS: Final = (0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0)
REFUSED: Final = "refused"
UNAVAILABLE: Final = "unavailable"


class StoreStats:
    """One store's. Belongs to its event loop."""

    def __init__(self) -> None:
        self.by_command: dict[str, Buckets] = {}
        self.failures: Counter[str] = Counter()

    def took(self, command: str, seconds: float) -> None:
        """A round trip that was answered; `command` is its first one, such as HGETALL."""
        buckets = self.by_command.get(command)
        if buckets is None:
            buckets = self.by_command[command] = Buckets(BOUNDS_SECONDS)
        buckets.add(seconds)

    def failed(self, error: StoreError) -> None:
        """One that was not, or was refused."""
        self.failures[REFUSED if isinstance(error, StoreRefused) else UNAVAILABLE] += 1


class StoreMetrics(Collector):
    """The round trips of a store that makes any: one in memory has none, and its metrics have no series."""

    def __init__(self, registry: CollectorRegistry, store: object) -> None:
        stats = getattr(store, "stats", None)
        self._stats = stats if isinstance(stats, StoreStats) else StoreStats()
        registry.register(self)

    def collect(self) -> Iterator[Metric]:
        seconds = HistogramMetricFamily(
            "tidegate_store_round_trip_seconds",
            "Time of a round trip to Redis, by its first command",
            labels=["command"],
        )
        for command, buckets in self._stats.by_command.items():
            buckets.into(seconds, [command])
        yield seconds
        failures = CounterMetricFamily(
            "tidegate_store_failures", "Round trips to Redis that failed, or that it refused", labels=["kind"]
        )
        for kind in (UNAVAILABLE, REFUSED):
            failures.add_metric([kind], self._stats.failures[kind])
        yield failures
