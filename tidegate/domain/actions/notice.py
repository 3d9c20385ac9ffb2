"""What is known of one alert or annotation, and how two things that were heard of it become one.

Notices form a join semilattice: whoever has heard the same notices knows the same, however often and in whichever
order they came (C. Baquero et al., *Pure operation-based replicated data types*, 2017, section 2). Alertmanager repeats
itself, comes in pairs, and its `resolved` may overtake a `firing`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256

from tidegate.domain.actions.act import Act
from tidegate.domain.actions.rules import Order

MOST_WAITING = 2_000
"""Notices in the inbox, of all that nobody has taken in yet."""
AGAIN_MS = 600_000
"""How long after it heard of an end a `firing` of the same begin is late, and not the alert that fires again: where
Alertmanager lost its Prometheus for a while, or one of two ends before the other, the begin stays what it was.
"""
KEPT_MS = 3_600_000
"""How long it is remembered that something is over: a `firing` that comes later than its `resolved` does nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """One alert or annotation, as heard from `first_ms` to `last_ms`. All times are Unix milliseconds.

    `key` says which: `alert:{hash of its labels}`, `annotation:{id}`. `cause` is how people read it. `version_ms` is
    when it began to fire, or when the annotation was written: a greater one replaces what was known. `ended_ms` is when
    it was resolved, or the version that was deleted: what began until then is over. Two Prometheus begin an alert at
    different times, and Alertmanager tells the end with the earlier one. `end_heard_ms` is when that was heard.
    `from_ms` and `until_ms` are an annotation's window; an alert has None. `orders` are what it asks for, `cancelled`
    the acts that an operator ended, by identifier, and who did.
    """

    key: str
    cause: str
    version_ms: int
    first_ms: int
    last_ms: int
    ended_ms: int | None = None
    end_heard_ms: int | None = None
    from_ms: int | None = None
    until_ms: int | None = None
    orders: tuple[Order, ...] = ()
    cancelled: Mapping[str, str] = field(default_factory=dict)

    def joined(self, other: Notice) -> Notice:
        """What is known when both were heard. Both have one key."""
        pair = sorted((self, other), key=_rank)
        newest = [one for one in pair if one.version_ms == pair[1].version_ms]
        by = [(name, who) for one in pair for name, who in one.cancelled.items()]
        return replace(
            pair[1],
            cause=max(one.cause for one in newest),
            ended_ms=_latest(one.ended_ms for one in pair),
            end_heard_ms=_latest(one.end_heard_ms for one in pair),
            first_ms=min(one.first_ms for one in newest),
            last_ms=max(one.last_ms for one in pair),
            cancelled=dict(sorted(by, reverse=True)),
        )

    @property
    def over(self) -> bool:
        """Resolved, or deleted."""
        ended = self.ended_ms is not None and self.ended_ms >= self.version_ms
        return ended and not (self.end_heard_ms is not None and self.last_ms >= self.end_heard_ms + AGAIN_MS)

    @property
    def window(self) -> tuple[int | None, int | None]:
        """From when until when an annotation holds."""
        return self.from_ms, self.until_ms

    def acts(self, now_ms: int) -> tuple[Act, ...]:
        """Those in force at `now_ms`."""
        made = (act for index in range(len(self.orders)) if (act := self._act(index, now_ms)) is not None)
        return () if self.over else tuple(made)

    def ids(self) -> tuple[str, ...]:
        """The identifiers of all its acts, in force or not."""
        return tuple(map(self._id, range(len(self.orders))))

    def _act(self, index: int, now_ms: int) -> Act | None:
        order, ident = self.orders[index], self._id(index)
        since_ms = self.first_ms if self.from_ms is None else self.from_ms
        until_ms = min(self._end(order), since_ms + order.at_most_ms)
        if ident in self.cancelled or not since_ms <= now_ms < until_ms:
            return None
        return Act(
            id=ident,
            deed=order.deed,
            rule=order.rule,
            cause=self.cause,
            since_ms=since_ms,
            until_ms=until_ms,
            dry_run=order.dry_run,
        )

    def _end(self, order: Order) -> int:
        if self.until_ms is not None:
            return self.until_ms
        return (self.last_ms if self.from_ms is None else self.from_ms) + order.for_ms

    def _id(self, index: int) -> str:
        order = self.orders[index]
        begun = self.version_ms if self.from_ms is None else self.from_ms  # a window with another end is the same act
        said = "\0".join((self.key, str(begun), order.rule, order.deed.kind, order.deed.target, str(index)))
        return sha256(said.encode()).hexdigest()[:10]

    def forgettable(self, now_ms: int) -> bool:
        """Nothing follows from it, and nothing would if it were told again.

        An act that was cancelled, or reached its `at_most`, comes back by no repetition: that is remembered for as long
        as repetitions may come.
        """
        ends = [0 if self.over else self._end(order) for order in self.orders]
        return now_ms > self.last_ms + KEPT_MS and now_ms >= max(ends, default=0)


def _latest(times: Iterable[int | None]) -> int | None:
    return max((time for time in times if time is not None), default=None)


def _rank(notice: Notice) -> tuple[int, bool, str]:
    """The newest last; of one version, one that asks for something."""
    return notice.version_ms, bool(notice.orders), repr((notice.orders, notice.from_ms, notice.until_ms))


def label_hash(labels: Mapping[str, str]) -> str:
    """What tells alerts apart: the same labels, the same alert, whichever Alertmanager says it."""
    said = "\0".join(f"{name}\0{value}" for name, value in sorted(labels.items()))
    return sha256(said.encode("utf-8", "surrogatepass")).hexdigest()[:24]
