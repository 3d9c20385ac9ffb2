"""What one version of one model did: a cluster may serve several models, and each is judged by its own requests."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from tidegate.domain.outcomes.ending import ENDINGS, Ending, Outcome
from tidegate.domain.outcomes.sketch import Sketch, quantile_of
from tidegate.domain.outcomes.window import SLOT_MS, SLOTS

_KEYS_AND_COUNTS: Final = 2


class Figures(msgspec.Struct, array_like=True):
    """Counts in the order of ENDINGS, and how long the served requests took: sketch bin → how many.

    They add up over instances and time, and what was counted before a moment can be taken off again.
    """

    counts: list[int] = msgspec.field(default_factory=lambda: [0] * len(ENDINGS))
    times: dict[int, int] = msgspec.field(default_factory=dict)

    def count(self, ending: Ending) -> int:
        """Requests that ended so."""
        return self.counts[ending.place]

    @property
    def requests(self) -> int:
        """All of them."""
        return sum(self.counts)

    @property
    def answered(self) -> int:
        """Those that an engine answered, or should have."""
        return self.requests - self.count(Ending.LEFT) - self.count(Ending.REFUSED)

    @property
    def error_ratio(self) -> float | None:
        """Faults of those answered, 0…1; None without any."""
        return self.count(Ending.FAULT) / self.answered if self.answered else None

    def quantile_ms(self, part: float) -> float | None:
        """The time within which `part` (0…1) of the served requests ended; None without any. Right to 1 %."""
        return quantile_of(self.times, part)

    def plus(self, other: Figures) -> Figures:
        """Both together."""
        times = dict(self.times)
        for key, count in other.times.items():
            times[key] = times.get(key, 0) + count
        return Figures([mine + theirs for mine, theirs in zip(self.counts, other.counts, strict=True)], times)

    def since(self, before: Figures) -> Figures:
        """What came after `before`. Where that is more than this, the counting began anew: then all of it."""
        counts = [mine - theirs for mine, theirs in zip(self.counts, before.counts, strict=True)]
        times = {key: count - before.times.get(key, 0) for key, count in self.times.items()}
        if min(counts) < 0 or min(times.values(), default=0) < 0:
            return self
        return Figures(counts, {key: count for key, count in times.items() if count})


class VersionTold(msgspec.Struct, frozen=True, array_like=True):
    """A version as it crosses Redis: counts and bins of the last minute, then of all since the instance began.

    Bins are as `Sketch.bins` draws them.
    """

    counts: list[int]
    total: list[int]
    ever: list[int]
    ever_total: list[int]

    @property
    def sound(self) -> bool:
        """Whether it is of today's shape."""
        return len(self.counts) == len(self.ever) == len(ENDINGS) and _even(self.total) and _even(self.ever_total)

    def last_minute(self) -> Figures:
        """Of the sliding window."""
        return Figures(list(self.counts), _by_key(self.total))

    def since_the_start(self) -> Figures:
        """Of all that the instance counted."""
        return Figures(list(self.ever), _by_key(self.ever_total))


def _even(bins: list[int]) -> bool:
    return len(bins) % _KEYS_AND_COUNTS == 0


def _by_key(bins: list[int]) -> dict[int, int]:
    found, key = {}, 0
    for step, count in zip(bins[::2], bins[1::2], strict=True):
        key += step
        found[key] = count
    return found


class _Part:
    __slots__ = ("counts", "total")

    def __init__(self) -> None:
        self.counts, self.total = [0] * len(ENDINGS), Sketch()

    def merge(self, other: _Part) -> None:
        self.counts = [mine + theirs for mine, theirs in zip(self.counts, other.counts, strict=True)]
        self.total.merge(other.total)


class Version:
    """Counts of one version: the last 60 to 65 s, and all. Times are milliseconds of a clock that never goes back.

    A request costs one count and one value of a sketch; what is told is made anew only where something changed.
    """

    __slots__ = ("_added", "_closed", "_ever", "_filling", "_number", "_told", "_told_at")

    def __init__(self) -> None:
        self._number = self._added = 0
        self._filling, self._ever = _Part(), _Part()
        self._closed: deque[tuple[int, _Part]] = deque()
        self._told: VersionTold | None = None
        self._told_at = (-1, -1)

    def add(self, outcome: Outcome, now_ms: int) -> None:
        """Count a request that ended at this moment."""
        self._turn(now_ms // SLOT_MS)
        self._added += 1
        self._filling.counts[outcome.ending.place] += 1
        if outcome.ending is Ending.SERVED and outcome.total_ms is not None:
            self._filling.total.add(outcome.total_ms)

    def told(self, now_ms: int) -> VersionTold:
        """As it crosses Redis."""
        self._turn(now_ms // SLOT_MS)
        at = (self._number if self._closed else -1, self._added)
        if self._told is None or at != self._told_at:
            self._told, self._told_at = self._made(), at
        return self._told

    def _made(self) -> VersionTold:
        window, ever = _Part(), _Part()
        for _, part in self._closed:
            window.merge(part)
        window.merge(self._filling)
        ever.merge(self._ever)
        ever.merge(self._filling)
        return VersionTold(window.counts, window.total.bins(), ever.counts, ever.total.bins())

    def _turn(self, number: int) -> None:
        if number == self._number:
            return
        if any(self._filling.counts):
            self._closed.append((self._number, self._filling))
            self._ever.merge(self._filling)
            self._filling = _Part()
        while self._closed and self._closed[0][0] < number - SLOTS:
            self._closed.popleft()
            self._told = None
        self._number = number


Versions = Mapping[str, Mapping[str, VersionTold]]
"""By model and cluster, what one instance counted."""


def last_minute(told: Iterable[Mapping[str, VersionTold]]) -> dict[str, Figures]:
    """By cluster, the last minute of one model as all instances counted it."""
    found: dict[str, Figures] = {}
    for clusters in told:
        for cluster, one in clusters.items():
            found[cluster] = found.get(cluster, Figures()).plus(one.last_minute())
    return found
