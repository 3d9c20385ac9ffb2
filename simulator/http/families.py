"""Metric families from plain values, with the `_created` series that vLLM's pages have."""

from __future__ import annotations

from collections.abc import Mapping

from prometheus_client.metrics_core import Metric

from simulator.engine import Histogram

Labels = dict[str, str]


class Families:
    """Builds families that share labels and a time of creation (Unix seconds)."""

    def __init__(self, prefix: str, labels: Labels, created: float) -> None:
        self._prefix, self._labels, self._created = prefix, labels, created

    def gauge(self, name: str, text: str, value: float, **labels: str) -> Metric:
        """A gauge of one series."""
        return self.gauges(name, text, "", {"": value}, **labels)

    def gauges(self, name: str, text: str, label: str, values: Mapping[str, float], **labels: str) -> Metric:
        """A gauge with a series for each value of `label`."""
        metric = Metric(self._prefix + name, text, "gauge")
        for key, value in values.items():
            metric.add_sample(metric.name, self._with(label, key, labels), value)
        return metric

    def counter(self, name: str, text: str, value: float, **labels: str) -> Metric:
        """A counter of one series; `name` has no `_total`."""
        return self.counters(name, text, "", {"": value}, **labels)

    def counters(self, name: str, text: str, label: str, values: Mapping[str, float], **labels: str) -> Metric:
        """A counter with a series for each value of `label`."""
        metric = Metric(self._prefix + name, text, "counter")
        for key, value in values.items():
            series = self._with(label, key, labels)
            metric.add_sample(f"{metric.name}_total", series, value)
            metric.add_sample(f"{metric.name}_created", series, self._created)
        return metric

    def histogram(self, name: str, text: str, histogram: Histogram, **labels: str) -> Metric:
        """A histogram of one series."""
        metric = Metric(self._prefix + name, text, "histogram")
        series = {**self._labels, **labels}
        for bound, count in histogram.cumulative():
            metric.add_sample(f"{metric.name}_bucket", {**series, "le": bound}, count)
        metric.add_sample(f"{metric.name}_count", series, histogram.count)
        metric.add_sample(f"{metric.name}_sum", series, histogram.sum)
        metric.add_sample(f"{metric.name}_created", series, self._created)
        return metric

    def _with(self, label: str, value: str, more: Labels) -> Labels:
        labels = {**self._labels, **more}
        return {**labels, label: value} if label else labels
