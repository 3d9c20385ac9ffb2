"""Counts and quantiles of many requests, mergeable."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from tidegate.domain.outcomes.ending import ENDINGS, Ending, Outcome
from tidegate.domain.outcomes.sketch import Sketch

QUANTILES: Final = (0.5, 0.95, 0.99)


class Told(msgspec.Struct, frozen=True, array_like=True):
    """A tally as it crosses Redis: counts in the order of ENDINGS, sketches as their bins.

    `span_ms` is the time over which `counts` were counted; `ever` are the counts since the instance began.
    """

    span_ms: int
    counts: list[int]
    retries: int
    received_bytes: int
    sent_bytes: int
    ttfb: list[int]
    total: list[int]
    engine: list[int]
    ever: list[int]


class Tally:
    """What became of requests. Quantiles are of served ones alone: refusals and faults are quick, and would flatter.

    Latencies of requests that a client left are unknown, so that it neither helps nor harms a replica.
    """

    __slots__ = ("counts", "engine", "received_bytes", "retries", "sent_bytes", "total", "ttfb")

    def __init__(self) -> None:
        self.counts = [0] * len(ENDINGS)
        self.retries = self.received_bytes = self.sent_bytes = 0
        self.ttfb, self.total, self.engine = Sketch(), Sketch(), Sketch()

    def add(self, outcome: Outcome) -> None:
        """Count one request."""
        self.counts[outcome.ending.place] += 1
        self.received_bytes += outcome.received_bytes
        self.sent_bytes += outcome.sent_bytes
        if outcome.attempts > 1:
            self.retries += outcome.attempts - 1
        if outcome.ending is Ending.SERVED:
            if outcome.ttfb_ms is not None:
                self.ttfb.add(outcome.ttfb_ms)
            if outcome.total_ms is not None:
                self.total.add(outcome.total_ms)
            if outcome.engine_ms is not None:
                self.engine.add(outcome.engine_ms)

    def merge(self, other: Tally) -> None:
        """Count what `other` counted as well."""
        self.counts = [mine + theirs for mine, theirs in zip(self.counts, other.counts, strict=True)]
        self.retries += other.retries
        self.received_bytes += other.received_bytes
        self.sent_bytes += other.sent_bytes
        self.ttfb.merge(other.ttfb)
        self.total.merge(other.total)
        self.engine.merge(other.engine)

    def count(self, ending: Ending) -> int:
        """Requests that ended so."""
        return self.counts[ending.place]

    @property
    def answered(self) -> int:
        """Requests that a replica answered, or should have: all but those that clients left and those refused."""
        return sum(self.counts) - self.count(Ending.LEFT) - self.count(Ending.REFUSED)

    def ratio(self, ending: Ending) -> float | None:
        """The part of the answered requests that ended so, 0…1; None without any."""
        return self.count(ending) / self.answered if self.answered else None

    def told(self, span_ms: int, ever: list[int]) -> Told:
        """As it crosses Redis."""
        return Told(
            span_ms=span_ms,
            counts=self.counts,
            retries=self.retries,
            received_bytes=self.received_bytes,
            sent_bytes=self.sent_bytes,
            ttfb=self.ttfb.bins(),
            total=self.total.bins(),
            engine=self.engine.bins(),
            ever=ever,
        )


def tally_of(told: Told) -> Tally:
    """The tally that was told. Raises ValueError when its counts are not of ENDINGS."""
    if len(told.counts) != len(ENDINGS):
        raise ValueError("the counts are of other endings")
    tally = Tally()
    tally.counts = list(told.counts)
    tally.retries, tally.received_bytes, tally.sent_bytes = told.retries, told.received_bytes, told.sent_bytes
    tally.ttfb, tally.total, tally.engine = map(Sketch.of_bins, (told.ttfb, told.total, told.engine))
    return tally


def merged(tallies: Iterable[Tally]) -> Tally:
    """A tally of all of them."""
    whole = Tally()
    for tally in tallies:
        whole.merge(tally)
    return whole
