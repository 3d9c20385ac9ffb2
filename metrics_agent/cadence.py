"""When things happen: slots of one interval, shared by the scrapes of a node and the tick that publishes them.

Scrapes start within the first tenth of a slot. The tick follows when all of them are in, at half of the slot at the
latest, so that a reading waits little and no engine holds up the others.
Pure; times are monotonic seconds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil
from typing import Final

SCRAPE_JITTER: Final = 0.1
PUBLISH_FROM: Final = 0.1
PUBLISH_BY: Final = 0.5
LOOK_EVERY: Final = 0.04
LONGEST_WAIT_SECONDS: Final = 1.0
MOST_DOUBLINGS: Final = 10
ROUNDING: Final = 1e-6


def next_scrape(now: float, interval: float, failures: int, random: Callable[[], float], rest: float = 0.0) -> float:
    """When to scrape next; `random` gives [0, 1). After failures the wait doubles each time, up to 1 s.

    The next scrape's slot begins at least `rest` seconds from now, unless that is less than an interval.
    """
    wait = min(interval * 2.0 ** min(failures, MOST_DOUBLINGS), LONGEST_WAIT_SECONDS)
    slot = _slot(now, interval) + max(1, round(wait / interval))
    if rest > interval:
        slot = max(slot, ceil((now + rest) / interval))
    return interval * (slot + SCRAPE_JITTER * random())


@dataclass(frozen=True, slots=True)
class Slot:
    """When a slot begins, and from when until when its tick waits for the slot's scrapes; monotonic seconds."""

    began: float
    earliest: float
    latest: float


def next_publish(now: float, interval: float) -> Slot:
    """The first slot whose tick is still to come: its earliest moment lies after `now`."""
    slot = _slot(now, interval)
    if now >= interval * (slot + PUBLISH_FROM):
        slot += 1
    return Slot(interval * slot, interval * (slot + PUBLISH_FROM), interval * (slot + PUBLISH_BY))


def _slot(now: float, interval: float) -> int:
    """The slot that `now` lies in; a hair before the next one counts as the next."""
    return int(now / interval + ROUNDING)
