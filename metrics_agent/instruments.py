"""The agent's own metrics."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

SECONDS_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0)


class Instruments:
    """One set a process; labels are bounded by the engines that operators register."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        self.scrape_seconds = self._histogram("scrape_seconds", "Time to fetch and read an engine's page", "endpoint")
        self.scrape_failures = self._counter(
            "scrape_failures_total", "Scrapes without a usable page, by cause", "endpoint", "cause"
        )
        self.unread_families = self._counter(
            "unread_families_total", "Families of an engine's pages with too many series to be read", "endpoint"
        )
        self.sample_age_seconds = self._gauge(
            "sample_age_seconds", "Age of the engine's newest sample at the last tick", "endpoint"
        )
        self.engines = self._gauge("engines", "Engines watched, by who named them: file, flag or folder", "source")
        self.bad_engine_files = self._gauge("bad_engine_files", "Files of --engines-dir that are not accepted")
        self.nvml = self._gauge("nvml_state", "1 for the state that NVML is in", "state")
        self.publishes = self._counter("publishes_total", "Ticks written to the store")
        self.publish_failures = self._counter("publish_failures_total", "Ticks that the store did not take")
        self.publish_seconds = self._histogram("publish_seconds", "Time that the store takes for one tick")
        self.unpublished_seconds = self._gauge("unpublished_seconds", "Time since the store last took a tick")
        self.clock_ahead_seconds = self._gauge(
            "clock_ahead_seconds", "How far Redis' clock is ahead of this machine's; corrected in every sample"
        )
        self.round_trip_seconds = self._gauge(
            "round_trip_seconds", "Quickest of the latest round trips to Redis that measured its clock"
        )

    def forget(self, endpoint: str) -> None:
        """An engine left: its series end."""
        for metric in (self.scrape_seconds, self.scrape_failures, self.unread_families, self.sample_age_seconds):
            metric.remove_by_labels({"endpoint": endpoint})

    def nvml_is(self, state: str) -> None:
        """The state that NVML is in."""
        self.nvml.clear()
        self.nvml.labels(state).set(1)

    def watch_age(self, seconds: Callable[[], float]) -> None:
        """`unpublished_seconds` is what `seconds` says when it is asked for."""
        self.unpublished_seconds.set_function(seconds)

    def _histogram(self, name: str, doc: str, *labels: str) -> Histogram:
        return Histogram(f"tidegate_agent_{name}", doc, labels, buckets=SECONDS_BUCKETS, registry=self._registry)

    def _gauge(self, name: str, doc: str, *labels: str) -> Gauge:
        return Gauge(f"tidegate_agent_{name}", doc, labels, registry=self._registry)

    def _counter(self, name: str, doc: str, *labels: str) -> Counter:
        return Counter(f"tidegate_agent_{name}", doc, labels, registry=self._registry)
