"""One registry's worth of metrics out of several workers': what is summed, and what is not.

    counter, histogram   the sum of all workers, bucket by bucket; of exemplars the newest
    gauge                the largest of all workers, but SUMMED and LEAST
    info                 what any worker says

A worker that ends takes its counts along, and its successor begins at 0. What the ended one had counted at the last
look therefore stays in the sums, so that they never fall; what it counted after that look is lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from tidegate.exposition import Life, Series, Told, metric

SUMMED: Final = frozenset(
    {
        "tidegate_ext_proc_open_streams",
        "tidegate_ext_proc_pending_requests",
        "tidegate_queue_bytes",
        "tidegate_queue_most_requests",
        "tidegate_queue_requests",
    }
)
"""Gauges of what each worker holds for itself."""
LEAST: Final = frozenset({"tidegate_tls_certificate_not_after_seconds"})
"""Gauges whose smallest value is the one to worry about."""
LARGEST: Final = "largest"
COUNTED: Final = frozenset({"counter", "histogram", "summary"})

Place = tuple[str, tuple[tuple[str, str], ...]]
"""Name and sorted labels of a series."""


def rule(name: str, kind: str) -> str:
    """How a family of several workers becomes one: `sum`, `least`, `largest`, or `same`."""
    if kind in COUNTED or name in SUMMED:
        return "sum"
    if kind == "info":
        return "same"
    return "least" if name in LEAST else LARGEST


@dataclass(slots=True)
class Family:
    """A family in the making."""

    documentation: str
    kind: str
    series: dict[Place, Series] = field(default_factory=dict)

    def add(self, name: str, told: Iterable[Series]) -> None:
        """What one more worker says."""
        how = rule(name, self.kind)
        for one in told:
            place = (one.name, tuple(sorted(one.labels.items())))
            known = self.series.get(place)
            self.series[place] = one if known is None else _joined(known, one, how)


def _joined(known: Series, one: Series, how: str) -> Series:
    if how == "sum":
        exemplars = [each.exemplar for each in (known, one) if each.exemplar is not None]
        newest = max(exemplars, key=lambda exemplar: exemplar[2] or 0.0, default=None)
        return Series(one.name, one.labels, known.value + one.value, newest)
    choose = min if how == "least" else max
    return choose(known, one, key=lambda each: each.value)


class Sums:
    """What the workers told so far: `heard` takes what they tell now, `summed` adds it up."""

    def __init__(self) -> None:
        self._last: dict[str, Life] = {}
        self._away: set[str] = set()
        self._ended: dict[str, Family] = {}

    def heard(self, lives: Mapping[str, Life]) -> None:
        """`lives` are what the workers that answered say, by worker. Of others the counts stay as they were."""
        for worker, life in lives.items():
            before = self._last.get(worker)
            if before is not None and before.name != life.name:
                _add(self._ended, before.families, only=COUNTED)
            self._last[worker] = life
        self._away = self._last.keys() - lives.keys()

    def by_worker(self, series: str) -> dict[str, float]:
        """The series of this name, which has no labels, by worker: since the worker's start, and when last heard."""
        return {
            worker: one.value
            for worker, life in self._last.items()
            for family in life.families
            if series.startswith(family.name)
            for one in family.series
            if one.name == series
        }

    def summed(self, own: Life) -> Summed:
        """The workers' families, and those of the process that asks."""
        families: dict[str, Family] = {}
        for worker, life in self._last.items():
            _add(families, life.families, only=COUNTED if worker in self._away else None)
        for name, ended in self._ended.items():
            families.setdefault(name, Family(ended.documentation, ended.kind)).add(name, ended.series.values())
        _add(families, own.families, only=None)
        return Summed(families)


class Summed(Collector):
    """The families of one look."""

    def __init__(self, families: Mapping[str, Family]) -> None:
        self._families = families

    def collect(self) -> Iterator[Metric]:
        for name, family in self._families.items():
            yield metric(name, family.documentation, family.kind, family.series.values())


def _add(families: dict[str, Family], told: Iterable[Told], *, only: frozenset[str] | None) -> None:
    for one in told:
        if only is None or one.type in only:
            families.setdefault(one.name, Family(one.documentation, one.type)).add(one.name, one.series)
