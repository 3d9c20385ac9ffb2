"""The fleet as this instance sees it, and what it sent where. Labels are clusters of the file and known replicas."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from ext_proc.view import FleetView

REPLICA: Final = ("cluster", "replica")


class FleetMetrics(Collector):
    """`clock` gives Unix milliseconds, by the store's clock. A replica that is gone has no series."""

    def __init__(self, registry: CollectorRegistry, fleet: FleetView, clock: Callable[[], int]) -> None:
        self._fleet, self._clock = fleet, clock
        registry.register(self)

    def collect(self) -> Iterator[Metric]:
        yield from self._seen(self._clock())
        picks = CounterMetricFamily("tidegate_ext_proc_picks", "Requests sent to a replica", labels=REPLICA)
        expected = HistogramMetricFamily(
            "tidegate_ext_proc_expected_first_token_seconds",
            "Time until the first token, as expected of the replica that was picked; the cost policy alone expects any",
            labels=["cluster"],
        )
        for name in self._fleet.names:
            view = self._fleet.cluster(name)
            for address, count in view.picks.items():
                picks.add_metric((name, address), count)
            view.expected.into(expected, [name])
        yield from (picks, expected)

    def _seen(self, now_ms: int) -> Iterator[Metric]:
        active = GaugeMetricFamily(
            "tidegate_ext_proc_active_replicas", "Replicas that may be sent to", labels=["cluster"]
        )
        pending = GaugeMetricFamily(
            "tidegate_ext_proc_pending_requests",
            "Requests sent to a replica, by any instance, that its samples do not count yet",
            labels=REPLICA,
        )
        ages = GaugeMetricFamily(
            "tidegate_ext_proc_sample_age_seconds", "Age of a replica's newest sample", labels=REPLICA
        )
        for name in self._fleet.names:
            view = self._fleet.cluster(name)
            active.add_metric([name], view.open(now_ms))
            for address, queued in view.picker.pending():
                pending.add_metric((name, address), queued)
            for one in view.replicas:
                if one.sample is not None:
                    ages.add_metric((name, one.address), one.sample.age_ms(now_ms) / 1000)
        yield from (active, pending, ages)
