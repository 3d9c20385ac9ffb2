"""What is registered, read back from a registry: also families that have no series yet."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from prometheus_client import CollectorRegistry
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.metrics_core import Metric

SUFFIX: Final[Mapping[str, str]] = {"counter": "_total", "info": "_info"}
OF_TYPES: Final = frozenset({"le", "quantile"})
"""Labels that histograms and summaries bring."""


@dataclass(frozen=True, slots=True)
class Family:
    """One family: `name` as it stands on the page, `labels` without those that its type brings."""

    name: str
    kind: str
    labels: tuple[str, ...]
    meaning: str


def families(registry: CollectorRegistry) -> dict[str, Family]:
    """By name, in order of registration."""
    listed = (_family(metric, labels) for metric, labels in _collected(registry))
    return {family.name: family for family in listed if not family.name.endswith("_created")}


def _collected(registry: CollectorRegistry) -> Iterator[tuple[Metric, tuple[str, ...]]]:
    """Families with their labels, which the client library keeps to itself: a page shows labels of series alone."""
    for collector in list(registry._collector_to_names):  # noqa: SLF001
        for metric in collector.collect():
            owner: Any = collector if isinstance(collector, MetricWrapperBase) else metric
            yield metric, tuple(getattr(owner, "_labelnames", ())) or _seen(metric)


def _seen(metric: Metric) -> tuple[str, ...]:
    return tuple(dict.fromkeys(label for sample in metric.samples for label in sample.labels if label not in OF_TYPES))


def _family(metric: Metric, labels: tuple[str, ...]) -> Family:
    return Family(metric.name + SUFFIX.get(metric.type, ""), metric.type, labels, metric.documentation)
