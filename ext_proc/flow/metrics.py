"""The queues on the metrics page. Labels are clusters and classes of the file, bands and outcomes."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from ext_proc.flow.counts import Outcome
from ext_proc.flow.gates import Gates
from tidegate.domain.flow.classes import Band, band


class QueueMetrics(Collector):
    """What the gates hold and what they did since the start."""

    def __init__(self, registry: CollectorRegistry, gates: Gates) -> None:
        self._gates = gates
        registry.register(self)

    def collect(self) -> Iterator[Metric]:
        yield from self._held()
        outcomes = CounterMetricFamily(
            "tidegate_queue_outcomes", "Requests that came to a cluster's queue", labels=["cluster", "outcome"]
        )
        served = CounterMetricFamily(
            "tidegate_queue_served", "Requests placed", labels=["cluster", "priority", "class"]
        )
        waits = HistogramMetricFamily(
            "tidegate_queue_wait_seconds", "Time from arrival to a place", labels=["cluster", "priority"]
        )
        for name, gate in self._gates:
            for outcome in Outcome:
                outcomes.add_metric([name, outcome], gate.counts.outcomes[outcome])
            for (group, class_name), count in gate.counts.served.items():
                served.add_metric([name, group, class_name], count)
            for group in Band:
                gate.counts.waits[group].into(waits, [name, group])
        yield from (outcomes, served, waits)

    def _held(self) -> Iterator[Metric]:
        depth = GaugeMetricFamily(
            "tidegate_queue_requests", "Requests that wait", labels=["cluster", "priority", "class"]
        )
        size = GaugeMetricFamily("tidegate_queue_bytes", "Bytes of their bodies", labels=["cluster"])
        most = GaugeMetricFamily("tidegate_queue_most_requests", "Requests that may wait", labels=["cluster"])
        longest = GaugeMetricFamily("tidegate_queue_timeout_seconds", "How long one may wait", labels=["cluster"])
        for name, gate in self._gates:
            most.add_metric([name], gate.settings.max_requests)
            longest.add_metric([name], gate.settings.timeout_ms / 1000)
            held = dict.fromkeys(gate.counts.served, 0)
            for (priority, class_name), count in gate.queue.depth().items():
                place = (band(priority), class_name)
                held[place] = held.get(place, 0) + count
            for (group, class_name), count in held.items():
                depth.add_metric([name, group, class_name], count)
            size.add_metric([name], gate.queue.size_bytes)
        yield from (depth, size, most, longest)
