"""The requests of one cluster that wait for room: bounded, by priority, fair within one."""

from __future__ import annotations

from bisect import insort
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar, cast

from tidegate.domain.flow.drain import DrainRate
from tidegate.domain.flow.level import Level, Turn
from tidegate.domain.flow.settings import DEFAULT, FlowSettings
from tidegate.domain.flow.waiting import Waiting

W = TypeVar("W", bound=Waiting)


@dataclass(frozen=True, slots=True)
class Offer(Generic[W]):
    """Whether a request waits, and who gave way to it and waits no more."""

    waits: bool
    displaced: tuple[W, ...] = ()


class FlowQueue(Generic[W]):
    """Strict between priorities, the lowest number first. Not safe across threads.

    The rule for one that finds no room: up to `look_ahead` requests behind it, in the order of their turns, are tried
    in its place, so that it does not block small ones; once `most_passed` have gone before it, nobody of its priority
    or a later one passes any more, so that it does not starve; and its deadline bounds how long that lasts.
    """

    def __init__(self, settings: FlowSettings = DEFAULT) -> None:
        self.settings = settings
        self.drain = DrainRate()
        self.size_bytes = 0
        self._levels: dict[int, Level] = {}
        self._priorities: list[int] = []
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[W]:
        """Everything that waits, in no order."""
        return (cast("W", one) for level in self._levels.values() for one in level)

    def ahead_of(self, priority: int) -> int:
        """Requests that are served before a newcomer of that priority."""
        return sum(len(self._levels[one]) for one in self._priorities if one <= priority)

    def depth(self) -> Counter[tuple[int, str]]:
        """Requests by priority and class."""
        return Counter((one.priority, one.class_name) for one in self)

    def offer(self, waiting: W) -> Offer[W]:
        """Let the request wait. In a full queue those give way who come after it.

        These are the newest of the latest priority; within its own priority, those of classes, then of users, who
        hold more of the queue than their share. Where not enough would give way, none does and it does not wait.
        """
        victims = self._victims(waiting)
        if victims is None:
            return Offer(waits=False)
        self._push(waiting)
        return Offer(True, tuple(victims))

    def place(self, fits: Callable[[W], bool], now_ms: int) -> list[W]:
        """Whoever's turn it is and `fits`, which places it when it returns True: out of the queue, in order."""
        placed: list[W] = []
        skipped: list[tuple[Level, Turn]] = []
        try:
            for level, turn in self._turns():
                waiting = cast("W", turn.waiting)
                skipped.append((level, turn))
                if fits(waiting):
                    skipped.pop()
                    self._served(level, turn, skipped)
                    placed.append(waiting)
                if len(skipped) > self.settings.look_ahead or self._passed_enough(skipped):
                    break
        finally:
            for level, turn in reversed(skipped):
                level.back(turn)
        self._drop_empty()
        self.drain.placed(len(placed), now_ms)
        return placed

    def holds(self, waiting: W) -> bool:
        """Whether the request waits here."""
        level = self._levels.get(waiting.priority)
        return level is not None and level.holds(waiting)

    def leave(self, waiting: W) -> None:
        """The request waits no more. Raises KeyError when it does not wait."""
        self._levels[waiting.priority].remove(waiting)
        self._less(waiting)
        self._drop_empty()

    def expired(self, now_ms: int) -> list[W]:
        """Those whose deadline has come: out of the queue."""
        late = [one for one in self if one.deadline_ms <= now_ms]
        for one in late:
            self.leave(one)
        return late

    def next_deadline_ms(self) -> int | None:
        """The earliest deadline; None when none waits."""
        return min((one.deadline_ms for one in self), default=None)

    def retry_after_seconds(self, priority: int, now_ms: int) -> int:
        """When a request of that priority may come back: once those before it have left at the rate of now."""
        unknown = self.settings.timeout_ms / 1000
        return self.drain.retry_after_seconds(self.ahead_of(priority), now_ms, unknown)

    def _turns(self) -> Iterator[tuple[Level, Turn]]:
        for priority in list(self._priorities):
            level = self._levels[priority]
            while len(level):
                yield level, level.take()

    def _served(self, level: Level, turn: Turn, skipped: list[tuple[Level, Turn]]) -> None:
        level.served(turn)
        self._less(turn.waiting)
        for _, passed in skipped:
            passed.waiting.passed += 1

    def _passed_enough(self, skipped: list[tuple[Level, Turn]]) -> bool:
        return any(turn.waiting.passed >= self.settings.most_passed for _, turn in skipped)

    def _victims(self, newcomer: W) -> list[W] | None:
        """Those who have left so that the newcomer has a place; None when it has none, and all are where they were."""
        gone: list[W] = []
        while not self._has_place(newcomer):
            victim = self._victim(newcomer)
            if victim is None:
                for one in reversed(gone):
                    self._push(one)
                return None
            self.leave(victim)
            gone.append(victim)
        return gone

    def _has_place(self, newcomer: W) -> bool:
        fits = self.size_bytes + newcomer.size_bytes <= self.settings.max_bytes
        return fits and self._count < self.settings.max_requests

    def _victim(self, newcomer: W) -> W | None:
        if not self._priorities or self._priorities[-1] < newcomer.priority:
            return None
        last = self._levels[self._priorities[-1]]
        victim = last.most_over_share()
        if victim is None or (victim.priority == newcomer.priority and not last.would_give_way(victim, newcomer)):
            return None
        return cast("W", victim)

    def _push(self, waiting: W) -> None:
        if waiting.priority not in self._levels:
            self._levels[waiting.priority] = Level()
            insort(self._priorities, waiting.priority)
        self._levels[waiting.priority].push(waiting)
        self._count += 1
        self.size_bytes += waiting.size_bytes

    def _less(self, waiting: Waiting) -> None:
        self._count -= 1
        self.size_bytes -= waiting.size_bytes

    def _drop_empty(self) -> None:
        """Clients choose priorities: levels exist for as long as somebody waits in them."""
        for priority in [one for one in self._priorities if not len(self._levels[one])]:
            self._priorities.remove(priority)
            del self._levels[priority]
