"""How many acts are in force, and what became of them."""

from __future__ import annotations

import time
from collections import Counter as Tally
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from prometheus_client import CollectorRegistry, Counter
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from controller.actions.audit import Turn
from tidegate.domain.actions.act import Act, Kind
from tidegate.store.acts import ALERTS

SILENT_SECONDS: Final = 5.0
"""After which the last look says nothing: another controller leads."""


class ActionInstruments(Collector):
    """Registered when made; `close()` takes it off the registry again."""

    def __init__(self, registry: CollectorRegistry, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._registry, self._monotonic = registry, monotonic
        self._in_force: dict[str, Tally[str]] = {}
        self._looked_at: float | None = None
        self._turns = Counter(
            "tidegate_actions_total",
            "Acts that began, ended, or would have begun",
            ["kind", "event"],
            registry=registry,
        )
        registry.register(self)

    def looked(self, acts: Iterable[Act], source: str = ALERTS) -> None:
        """These of `source` are in force; those that are dry runs are not."""
        self._in_force[source] = Tally(str(act.deed.kind) for act in acts if not act.dry_run)
        self._looked_at = self._monotonic()

    def turned(self, turn: Turn, act: Act) -> None:
        """An act began or ended."""
        self._turns.labels(kind=act.deed.kind, event=turn).inc()

    def collect(self) -> Iterator[Metric]:
        """By kind; nothing where this controller does not lead."""
        family = GaugeMetricFamily("tidegate_actions_in_force", "Acts in force", labels=["kind"])
        if self._looked_at is not None and self._monotonic() - self._looked_at < SILENT_SECONDS:
            for kind in Kind:
                family.add_metric([kind], sum(tally[kind] for tally in self._in_force.values()))
        yield family

    def close(self) -> None:
        """Unregister."""
        self._registry.unregister(self)
        self._registry.unregister(self._turns)
