"""What was counted: windows by cluster and replica, ledgers by model, and totals for the metrics page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from tidegate.buckets import Buckets
from tidegate.domain.outcomes.ending import ENDINGS, Ending, Outcome
from tidegate.domain.outcomes.report import Report
from tidegate.domain.outcomes.slo import Ledger, Slo
from tidegate.domain.outcomes.tally import Told
from tidegate.domain.outcomes.version import Version
from tidegate.domain.outcomes.window import Window

OTHER: Final = "other"
"""The label of models and classes that the file does not name: clients choose those, and may choose many."""
SILENT_MS: Final = 3_600_000
"""A replica that got no request for so long is forgotten."""
BOUNDS_SECONDS: Final = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)
PROMPTLY_MS: Final = 70_000
"""A little more than a window: then it holds nothing that a reader would miss."""


class Place:
    """One replica of one cluster."""

    __slots__ = ("ever", "last_ms", "received_bytes", "retries", "sent_bytes", "window")

    def __init__(self, now_ms: int) -> None:
        self.window, self.last_ms = Window(now_ms), now_ms
        self.ever = [0] * len(ENDINGS)
        self.retries = self.received_bytes = self.sent_bytes = 0

    def add(self, outcome: Outcome, now_ms: int) -> None:
        """Count a request that ended at this moment."""
        self.window.add(outcome, now_ms)
        self.last_ms = now_ms
        self.ever[outcome.ending.place] += 1
        if outcome.attempts > 1:
            self.retries += outcome.attempts - 1
        self.received_bytes += outcome.received_bytes
        self.sent_bytes += outcome.sent_bytes


class Times:
    """Of one cluster's served requests, since the start."""

    __slots__ = ("first_byte", "last_byte")

    def __init__(self) -> None:
        self.first_byte, self.last_byte = Buckets(BOUNDS_SECONDS), Buckets(BOUNDS_SECONDS)

    def add(self, outcome: Outcome) -> None:
        """Count one, where it was served."""
        if outcome.ending is not Ending.SERVED:
            return
        if outcome.ttfb_ms is not None:
            self.first_byte.add(outcome.ttfb_ms / 1000)
        if outcome.total_ms is not None:
            self.last_byte.add(outcome.total_ms / 1000)


class Book:
    """One event loop's. `clock_ms` never goes back; `models` and `classes` are the names that may be labels.

    Versions are counted for `split_models` alone; `run` names this life of the instance.
    """

    def __init__(
        self,
        clock_ms: Callable[[], int],
        *,
        models: Iterable[str] = (),
        classes: Iterable[str] = (),
        slos: Iterable[Slo] = (),
        split_models: Iterable[str] = (),
        run: str = "",
    ) -> None:
        self._clock_ms = clock_ms
        self._models, self._classes = frozenset(models), frozenset(classes)
        self._ledgers = {slo.model: Ledger(slo.ttfb_p95_ms) for slo in slos}
        self.run = run
        self.versions: dict[str, dict[str, Version]] = {model: {} for model in split_models}
        self.places: dict[tuple[str, str], Place] = {}
        self.times: dict[str, Times] = {}
        self.by_model: dict[tuple[str, str], list[int]] = {}
        self.refusals: Counter[tuple[str, str]] = Counter()

    def add(self, outcome: Outcome) -> None:
        """Count a request that ended at this moment."""
        now_ms = self._clock_ms()
        model = outcome.model if outcome.model in self._models else OTHER
        request_class = outcome.request_class if outcome.request_class in self._classes else OTHER
        counts = self.by_model.get((model, request_class))
        if counts is None:
            counts = self.by_model[model, request_class] = [0] * len(ENDINGS)
        counts[outcome.ending.place] += 1
        if (ledger := self._ledgers.get(outcome.model)) is not None:
            ledger.add(outcome, now_ms)
        if outcome.ending is Ending.REFUSED:
            self.refusals[outcome.reason, model] += 1
        if not outcome.cluster:
            return
        place = self.places.get((outcome.cluster, outcome.replica))
        if place is None:
            place = self.places[outcome.cluster, outcome.replica] = Place(now_ms)
        place.add(outcome, now_ms)
        if (times := self.times.get(outcome.cluster)) is None:
            times = self.times[outcome.cluster] = Times()
        times.add(outcome)
        if (versions := self.versions.get(outcome.model)) is not None:
            version = versions.get(outcome.cluster)
            if version is None:
                version = versions[outcome.cluster] = Version()
            version.add(outcome, now_ms)

    def report(self) -> Report:
        """What this instance tells: every place that its window holds something of, every ledger."""
        now_ms = self._clock_ms()
        self._forget(now_ms)
        clusters: dict[str, dict[str, Told]] = {}
        for (cluster, replica), place in self.places.items():
            if now_ms - place.last_ms < PROMPTLY_MS:
                told = place.window.tally(now_ms).told(place.window.span_ms(now_ms), place.ever)
                clusters.setdefault(cluster, {})[replica] = told
        versions = {model: {c: one.told(now_ms) for c, one in named.items()} for model, named in self.versions.items()}
        return Report(
            clusters,
            {model: ledger.spans(now_ms) for model, ledger in self._ledgers.items()},
            {model: told for model, told in versions.items() if told},
            self.run,
        )

    def windows(self) -> Mapping[tuple[str, str], Window]:
        """The windows by cluster and replica."""
        return {place: one.window for place, one in self.places.items()}

    def _forget(self, now_ms: int) -> None:
        for name in [name for name, place in self.places.items() if now_ms - place.last_ms > SILENT_MS]:
            del self.places[name]
