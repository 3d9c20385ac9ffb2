"""What became of those who came to a cluster's door: plain numbers, since every request adds to them."""

from __future__ import annotations

from collections import Counter
from enum import StrEnum
from typing import Final

from tidegate.buckets import Buckets
from tidegate.domain.flow.classes import Band, band
from tidegate.domain.flow.waiting import Waiting

BOUNDS_SECONDS: Final = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)


class Outcome(StrEnum):
    """How a request left the queue, or why it did not enter.

    PLACED     a replica has room
    EASED      Envoy's weights decide: no sample is fresh, or ext_proc stops
    TIMEOUT    429 at its deadline
    SATURATED  429 on arrival: the queue is full
    DISPLACED  429: another one needed the place more
    CLOSED     503: no replica serves any more
    GONE       its client hung up
    """

    PLACED = "placed"
    EASED = "eased"
    TIMEOUT = "timeout"
    SATURATED = "saturated"
    DISPLACED = "displaced"
    CLOSED = "closed"
    GONE = "gone"

    __hash__ = str.__hash__  # that of Enum is written in Python


class GateCounts:
    """Cumulative. Waits are of those who were in the queue, or in a batch window, and were placed."""

    def __init__(self) -> None:
        self.outcomes: Counter[Outcome] = Counter()
        self.served: Counter[tuple[Band, str]] = Counter()
        self.waits = {one: Buckets(BOUNDS_SECONDS) for one in Band}

    def left(self, waiting: Waiting, outcome: Outcome, now_ms: int, trace_id: str | None = None) -> None:
        """The request waits no more; `trace_id` is that of its trace, where that is sampled."""
        self.outcomes[outcome] += 1
        if outcome is Outcome.PLACED:
            group = band(waiting.priority)
            self.served[group, waiting.class_name] += 1
            self.waits[group].add(max(0, now_ms - waiting.arrived_ms) / 1000, trace_id)
