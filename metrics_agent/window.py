"""Sliding windows over cumulative counters: what happened in the last 60 s, kept in slots of 5 s. Pure.

Differences are taken series by series: a counter that went back was reset, and what it shows has happened since;
a series that appears later started at 0. The first look at an engine is a baseline and counts nothing, and so is
a look after a gap longer than the window. Times are seconds of any clock that does not go back.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from operator import add, sub
from typing import Any, Final

SPAN_SECONDS: Final = 60.0
SLOT_SECONDS: Final = 5.0
SLOTS: Final = int(SPAN_SECONDS / SLOT_SECONDS)

Bounds = Mapping[float, float]


@dataclass(slots=True)
class _Slot:
    number: int
    seconds: float = 0.0
    increases: dict[float, float] = field(default_factory=dict)


class HistogramWindow:
    """Cumulative histograms in, quantiles of the window out. A plain counter is a histogram with one bound."""

    def __init__(self) -> None:
        self._slots: deque[_Slot] = deque()
        self._sums: dict[float, float] = {}  # of the slots, kept as they come and go
        self._last: dict[Any, Bounds] = {}
        self._last_at: float | None = None

    def observe(self, at_seconds: float, series: Mapping[Any, Bounds]) -> None:
        """Take one look: upper bound → cumulative count, by series, of any key. An empty look says nothing."""
        if not series:
            return
        if self._last_at is not None and at_seconds - self._last_at <= SPAN_SECONDS:
            slot = self._slot(at_seconds)
            slot.seconds += at_seconds - self._last_at
            for bounds, rises in self._rises(series).items():
                self._add(slot, bounds, rises)
            self._last.update(series)  # a series that a look lacks goes on from where it was
        else:
            self._last = dict(series)
        self._last_at = at_seconds

    def quantile(self, at_seconds: float, q: float) -> float | None:
        """The q-quantile (0…1) of the window, linear within its bucket, as Prometheus' histogram_quantile.

        The first bucket begins at 0; in the bucket without upper bound it is the largest finite bound. None when
        nothing was counted.
        """
        self._expire(at_seconds)
        bounds = sorted(self._sums)
        total = self._sums[bounds[-1]] if bounds else 0.0
        if total <= 0:
            return None
        lower, below = 0.0, 0.0
        for bound in bounds:
            count = self._sums[bound]
            if count >= q * total:
                return _within(lower, bound, (q * total - below) / (count - below) if count > below else 1.0)
            lower, below = bound, count
        return None

    def rate(self, at_seconds: float) -> float | None:
        """Largest bound's increase per second over the time looked at; None under one second of it."""
        increase = self.increase(at_seconds)
        seconds = sum(slot.seconds for slot in self._slots)
        return increase / seconds if increase is not None and seconds >= 1.0 else None

    def increase(self, at_seconds: float) -> float | None:
        """Largest bound's increase in the window; None before the second look."""
        self._expire(at_seconds)
        return self._sums[max(self._sums)] if self._sums else None

    def _slot(self, at_seconds: float) -> _Slot:
        self._expire(at_seconds)
        number = int(at_seconds // SLOT_SECONDS)
        if not self._slots or self._slots[-1].number != number:
            self._slots.append(_Slot(number))
        return self._slots[-1]

    def _expire(self, at_seconds: float) -> None:
        oldest = int(at_seconds // SLOT_SECONDS) - SLOTS
        while self._slots and self._slots[0].number <= oldest:
            for bound, increase in self._slots.popleft().increases.items():
                self._sums[bound] -= increase
        if not self._slots:
            self._sums.clear()

    def _rises(self, series: Mapping[Any, Bounds]) -> dict[tuple[float, ...], list[float]]:
        """What was counted since the last look, by the bounds that series have in common, and in their order."""
        found: dict[tuple[float, ...], list[float]] = {}
        for key, new in series.items():
            bounds, rise = tuple(new), _rise(self._last.get(key, {}), new)
            found[bounds] = list(map(add, found[bounds], rise)) if bounds in found else rise
        return found

    def _add(self, slot: _Slot, bounds: tuple[float, ...], rises: Iterable[float]) -> None:
        for bound, rise in zip(bounds, rises, strict=True):
            slot.increases[bound] = slot.increases.get(bound, 0.0) + rise
            self._sums[bound] = self._sums.get(bound, 0.0) + rise


def _rise(old: Bounds, new: Bounds) -> list[float]:
    """Count by count, how much of `new` came after `old`: all of it when one went back."""
    same = list(old) == list(new)
    before = old.values() if same else [old.get(bound, 0.0) for bound in new]
    rise = list(map(sub, new.values(), before))
    return list(new.values()) if min(rise, default=0.0) < 0 else rise


def _within(lower: float, upper: float, share: float) -> float | None:
    if upper == float("inf"):
        return lower or None
    return lower + (upper - lower) * share


class CounterWindow:
    """Cumulative counters in, their increase and rate over the window out."""

    def __init__(self) -> None:
        self._window = HistogramWindow()

    def observe(self, at_seconds: float, series: Mapping[Any, float]) -> None:
        """Take one look at every series of the counter."""
        self._window.observe(at_seconds, {key: {0.0: value} for key, value in series.items()})

    def rate(self, at_seconds: float) -> float | None:
        """Increase per second; None under one second of looking."""
        return self._window.rate(at_seconds)

    def increase(self, at_seconds: float) -> float | None:
        """Increase within the window; None before the second look."""
        return self._window.increase(at_seconds)
