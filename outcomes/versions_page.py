"""The metrics of versions: a cluster may serve several models, and each is shown by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import CounterMetricFamily, Metric, SummaryMetricFamily
from prometheus_client.registry import Collector

from outcomes.book import Book
from outcomes.page import OF_A_MINUTE, PREFIX, add_quantiles, steady_ms
from tidegate.domain.outcomes.ending import ENDINGS


class VersionsPage(Collector):
    """Counts since the start, quantiles of the last minute. Labels are models and clusters of the file."""

    def __init__(self, registry: CollectorRegistry, book: Book, clock_ms: Callable[[], int] = steady_ms) -> None:
        self._book, self._clock_ms = book, clock_ms
        registry.register(self)

    def collect(self) -> Iterator[Metric]:
        requests = CounterMetricFamily(
            f"{PREFIX}_version_requests", "Requests that ended, by version", labels=["model", "version", "ending"]
        )
        seconds = SummaryMetricFamily(
            f"{PREFIX}_version_seconds", f"Last byte, {OF_A_MINUTE}", labels=["model", "version"]
        )
        now_ms = self._clock_ms()
        for model, versions in self._book.versions.items():
            for name, version in versions.items():
                told = version.told(now_ms)
                for ending, count in zip(ENDINGS, told.ever, strict=True):
                    requests.add_metric([model, name, ending], count)
                add_quantiles(seconds, {"model": model, "version": name}, told.last_minute().quantile_ms)
        yield from (requests, seconds)
