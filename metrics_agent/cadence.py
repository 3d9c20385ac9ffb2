"""When things happen: slots of one interval, shared by the scrapes of a node and the tick that publishes them.

Scrapes start within the first tenth of a slot; the tick follows at three tenths, so that a reading waits little.
Pure; times are monotonic seconds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

SCRAPE_JITTER: Final = 0.1
PUBLISH_AT: Final = 0.3
LONGEST_WAIT_SECONDS: Final = 1.0
MOST_DOUBLINGS: Final = 10
ROUNDING: Final = 1e-6


def next_scrape(now: float, interval: float, failures: int, random: Callable[[], float]) -> float:
    """When to scrape next; `random` gives [0, 1). After failures the wait doubles each time, up to 1 s."""
    wait = min(interval * 2.0 ** min(failures, MOST_DOUBLINGS), LONGEST_WAIT_SECONDS)
    slot = _slot(now, interval) + max(1, round(wait / interval))
    return interval * (slot + SCRAPE_JITTER * random())


def next_publish(now: float, interval: float) -> float:
    """The next moment at three tenths of a slot, after `now`."""
    slot = _slot(now, interval)
    at = interval * (slot + PUBLISH_AT)
    return at if at > now else at + interval


def _slot(now: float, interval: float) -> int:
    """The slot that `now` lies in; a hair before the next one counts as the next."""
    return int(now / interval + ROUNDING)
