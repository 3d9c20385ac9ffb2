"""One registry's worth of metrics out of several workers': what is summed, and what is not.

    counter, histogram   the sum of all workers, bucket by bucket; of exemplars the newest
    gauge                the largest of all workers
    info                 what any worker says
    SUMMED, LEAST, ALIKE exceptions by name

A worker that ends takes its counts along, and its successor begins at 0. What the ended one had counted when it was
last heard therefore stays in what its place counted, which never falls; what it counted after that is lost.
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
        "tidegate_queue_bytes",
        "tidegate_queue_most_requests",
        "tidegate_queue_requests",
    }
)
"""Gauges of what each worker holds for itself."""
LEAST: Final = frozenset({"tidegate_tls_certificate_not_after_seconds"})
"""Gauges whose smallest value is the one to worry about."""
ALIKE: Final = frozenset(
    {
        "tidegate_ext_proc_counted_output_tokens",
        "tidegate_ext_proc_counted_prompt_tokens",
        "tidegate_ext_proc_output_windows",
    }
)
"""Counters of what every worker sees of the same engines."""
COUNTED: Final = frozenset({"counter", "histogram", "summary"})

Place = tuple[str, tuple[tuple[str, str], ...]]
"""Name and sorted labels of a series."""


def rule(name: str, kind: str) -> str:
    """How a family of several workers becomes one: `sum`, `least`, `largest`, or `same`."""
    if kind == "info":
        return "same"
    if name in SUMMED or (kind in COUNTED and name not in ALIKE):
        return "sum"
    return "least" if name in LEAST else "largest"


@dataclass(slots=True)
class Family:
    """A family in the making."""

    documentation: str
    kind: str
    series: dict[Place, Series] = field(default_factory=dict)

    def add(self, told: Iterable[Series], how: str) -> None:
        """What one more worker, or one more life, says."""
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
        self._ended: dict[str, dict[str, Family]] = {}

    def heard(self, lives: Mapping[str, Life]) -> None:
        """`lives` are what the workers that answered say, by worker. Of others the counts stay as they were."""
        for worker, life in lives.items():
            before = self._last.get(worker)
            if before is not None and before.name != life.name:
                self._ended[worker] = self._counted(worker)
            self._last[worker] = life
        self._away = self._last.keys() - lives.keys()

    def _counted(self, worker: str) -> dict[str, Family]:
        """What a worker counted in all its lives."""
        counted = {
            told.name: Family(told.documentation, told.type)
            for told in self._last[worker].families
            if told.type in COUNTED
        }
        for name, family in self._ended.get(worker, {}).items():
            counted.setdefault(name, Family(family.documentation, family.kind)).add(family.series.values(), "sum")
        for told in self._last[worker].families:
            if told.type in COUNTED:
                counted[told.name].add(told.series, "sum")
        return counted

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
            for name, family in self._counted(worker).items():
                _add(families, name, family, family.series.values())
            if worker not in self._away:
                _add_told(families, (one for one in life.families if one.type not in COUNTED))
        _add_told(families, own.families)
        return Summed(families)


class Summed(Collector):
    """The families of one look."""

    def __init__(self, families: Mapping[str, Family]) -> None:
        self._families = families

    def collect(self) -> Iterator[Metric]:
        for name, family in self._families.items():
            yield metric(name, family.documentation, family.kind, family.series.values())


def _add_told(families: dict[str, Family], told: Iterable[Told]) -> None:
    for one in told:
        _add(families, one.name, Family(one.documentation, one.type), one.series)


def _add(families: dict[str, Family], name: str, like: Family, series: Iterable[Series]) -> None:
    known = families.setdefault(name, Family(like.documentation, like.kind))
    known.add(series, rule(name, like.kind))
