"""The controller's own metrics, on the registry of the process that runs it."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Histogram


class Instruments:
    """Registered when made; `close()` takes them off the registry again, so that a restarted loop can register."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.registry = registry
        self.tick_seconds = Histogram(
            "tidegate_controller_tick_seconds",
            "Time of one look at the store, deciding and publishing",
            buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.06, 0.125, 0.25, 0.5, 1.0),
            registry=registry,
        )
        self.overruns = Counter(
            "tidegate_controller_tick_overruns_total", "Ticks that took longer than tick_ms", registry=registry
        )
        self.writes = Counter(
            "tidegate_controller_decisions_written_total", "Clusters whose decision was written", registry=registry
        )
        self.store_errors = Counter(
            "tidegate_controller_store_errors_total", "Ticks that failed at the store", registry=registry
        )
        self.duty_faults = Counter(
            "tidegate_controller_duty_faults_total", "Ticks of a duty that broke off", ["duty"], registry=registry
        )

    def close(self) -> None:
        """Unregister all."""
        for collector in (self.tick_seconds, self.overruns, self.writes, self.store_errors, self.duty_faults):
            self.registry.unregister(collector)
