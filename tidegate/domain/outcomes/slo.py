"""Service-level objectives and how fast their budgets burn.

An objective allows a part of the requests to be bad. The burn rate of a window is

    bad / counted / allowed          0…1 / allowed; 1 spends exactly the budget, 0 nothing

    objective      bad                                          counted                          allowed
    ttfb_p95_ms    first byte later than the target             served                           0.05
    error_rate     faults                                       answered by an engine            the target
    availability   faults, back-pressure, refusals for want     answered, and those refusals     1 - the target
                   of room

Clients that left and refusals that are the client's doing count in none. An objective burns where both 5 minutes and
1 hour burn at FAST or more: the short window says that it goes on, the long one that it matters (multi-window rule of
Google's Site Reliability Workbook, chapter 5). 14.4 in one hour spends 2 % of the budget of 30 days.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from tidegate.domain.outcomes.ending import FOR_WANT_OF_ROOM, Ending, Outcome

FAST: Final = 14.4
SLOW_ALLOWED: Final = 0.05
SLOT_MS: Final = 10_000
SHORT_SLOTS: Final = 30
LONG_SLOTS: Final = 360


@dataclass(frozen=True, slots=True)
class Slo:
    """What is promised for a model; None is no promise. `ttfb_p95_ms` > 0; the others lie between 0 and 1."""

    model: str
    ttfb_p95_ms: float | None = None
    error_rate: float | None = None
    availability: float | None = None

    @property
    def objectives(self) -> tuple[str, ...]:
        """The names of those promised."""
        names = ("ttfb_p95_ms", "error_rate", "availability")
        return tuple(name for name in names if getattr(self, name) is not None)


class Counts(msgspec.Struct, array_like=True):
    """What the objectives of one model need to know of a window."""

    served: int = 0
    late: int = 0
    answered: int = 0
    faults: int = 0
    wanted: int = 0
    unserved: int = 0

    def plus(self, other: Counts) -> Counts:
        """Both together."""
        return Counts(
            self.served + other.served,
            self.late + other.late,
            self.answered + other.answered,
            self.faults + other.faults,
            self.wanted + other.wanted,
            self.unserved + other.unserved,
        )


class Spans(msgspec.Struct, array_like=True):
    """The counts of the last 5 minutes and of the last hour."""

    short: Counts = msgspec.field(default_factory=Counts)
    long: Counts = msgspec.field(default_factory=Counts)

    def plus(self, other: Spans) -> Spans:
        """Both together."""
        return Spans(self.short.plus(other.short), self.long.plus(other.long))


class Ledger:
    """Counts of one model over an hour, in slots of 10 s. `late_ms` is its target for the first byte."""

    def __init__(self, late_ms: float | None) -> None:
        self._late_ms = late_ms
        self._slots: deque[tuple[int, Counts]] = deque()

    def add(self, outcome: Outcome, now_ms: int) -> None:
        """Count a request that ended at this moment."""
        if outcome.ending is Ending.LEFT:
            return
        if outcome.ending is Ending.REFUSED:
            if outcome.reason in FOR_WANT_OF_ROOM:
                counts = self._slot(now_ms)
                counts.wanted += 1
                counts.unserved += 1
            return
        counts = self._slot(now_ms)
        counts.answered += 1
        counts.wanted += 1
        if outcome.ending is Ending.SERVED:
            self._timed(counts, outcome.ttfb_ms)
        elif outcome.ending is not Ending.CLIENT_ERROR:
            counts.unserved += 1
            counts.faults += outcome.ending is Ending.FAULT

    def spans(self, now_ms: int) -> Spans:
        """Both windows at this moment."""
        number = now_ms // SLOT_MS
        while self._slots and self._slots[0][0] <= number - LONG_SLOTS:
            self._slots.popleft()
        spans = Spans()
        for at, counts in self._slots:
            spans.long = spans.long.plus(counts)
            if at > number - SHORT_SLOTS:
                spans.short = spans.short.plus(counts)
        return spans

    def _slot(self, now_ms: int) -> Counts:
        number = now_ms // SLOT_MS
        if not self._slots or self._slots[-1][0] != number:
            self._slots.append((number, Counts()))
        return self._slots[-1][1]

    def _timed(self, counts: Counts, ttfb_ms: float | None) -> None:
        if ttfb_ms is not None:
            counts.served += 1
            counts.late += self._late_ms is not None and ttfb_ms > self._late_ms


def burn_rate(slo: Slo, objective: str, counts: Counts) -> float | None:
    """How fast a window spends the objective's budget; None without requests."""
    bad, counted, allowed = _parts(slo, counts)[objective]
    return bad / counted / allowed if counted else None


def burns(short: float | None, long: float | None) -> bool:
    """Whether an objective burns, by the rates of 5 minutes and of 1 hour."""
    return short is not None and long is not None and min(short, long) >= FAST


def _parts(slo: Slo, counts: Counts) -> Mapping[str, tuple[int, int, float]]:
    return {
        "ttfb_p95_ms": (counts.late, counts.served, SLOW_ALLOWED),
        "error_rate": (counts.faults, counts.answered, slo.error_rate or 1.0),
        "availability": (counts.unserved, counts.wanted, 1.0 - (slo.availability or 0.0)),
    }
