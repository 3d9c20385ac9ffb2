"""The agent's own metrics."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

SCRAPE_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0)


class Instruments:
    """One set a process; labels are bounded by the configured engines."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.scrape_seconds = Histogram(
            "tidegate_agent_scrape_seconds",
            "Time to fetch and read an engine's page",
            ["endpoint"],
            buckets=SCRAPE_BUCKETS,
            registry=registry,
        )
        self.scrape_failures = Counter(
            "tidegate_agent_scrape_failures_total",
            "Scrapes without a usable page, by cause",
            ["endpoint", "cause"],
            registry=registry,
        )
        self.sample_age_seconds = Gauge(
            "tidegate_agent_sample_age_seconds",
            "Age of the engine's newest sample when it was last published",
            ["endpoint"],
            registry=registry,
        )
        self.publishes = Counter("tidegate_agent_publishes_total", "Ticks written to the store", registry=registry)
        self.publish_failures = Counter(
            "tidegate_agent_publish_failures_total", "Ticks that the store did not take", registry=registry
        )
