"""Requests of one priority: fair between classes by their weights, then between the users of a class."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass

from tidegate.domain.flow.fair import Turns
from tidegate.domain.flow.waiting import Waiting


@dataclass(frozen=True, slots=True)
class Turn:
    """A request whose turn it is, and the virtual starts at which its class and its user had it."""

    waiting: Waiting
    class_start: float
    user_start: float


class _Class:
    """The users of one class, each with its requests in order of arrival."""

    __slots__ = ("count", "turns", "users", "weight")

    def __init__(self, weight: float) -> None:
        self.turns, self.weight, self.count = Turns(), weight, 0
        self.users: dict[str, OrderedDict[Waiting, None]] = {}


class Level:
    """`take` hands out the next request; it is then either `served` or put `back`, the last taken first."""

    def __init__(self) -> None:
        self._turns = Turns()
        self._classes: dict[str, _Class] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Waiting]:
        """Everything that waits, in no order."""
        return (one for group in self._classes.values() for queue in group.users.values() for one in queue)

    def holds(self, waiting: Waiting) -> bool:
        """Whether the request waits here."""
        group = self._classes.get(waiting.class_name)
        return group is not None and waiting in group.users.get(waiting.user, ())

    def push(self, waiting: Waiting) -> None:
        """The request waits behind those of its user."""
        self._turns.join(waiting.class_name)
        group = self._group(waiting)
        group.turns.join(waiting.user)
        group.users.setdefault(waiting.user, OrderedDict())[waiting] = None
        self._counted(group, 1)

    def take(self) -> Turn:
        """The request whose turn it is, out of the queue and charged. Raises IndexError when none waits."""
        name = self._turns.first
        group = self._classes[name]
        waiting = next(iter(group.users[group.turns.first]))
        turn = Turn(waiting, self._turns.start(name), group.turns.start(waiting.user))
        self._turns.move(name, waiting.cost / waiting.weight)
        group.turns.move(waiting.user, waiting.cost)
        self.remove(waiting)
        return turn

    def served(self, turn: Turn) -> None:
        """The request was placed: virtual time goes on."""
        self._turns.served(turn.class_start)
        self._classes[turn.waiting.class_name].turns.served(turn.user_start)

    def back(self, turn: Turn) -> None:
        """The request found no room: it is the first of its user again, and uncharged."""
        waiting = turn.waiting
        group = self._group(waiting)
        self._turns.back(waiting.class_name, waiting.cost / waiting.weight)
        group.turns.back(waiting.user, waiting.cost)
        queue = group.users.setdefault(waiting.user, OrderedDict())
        queue[waiting] = None
        queue.move_to_end(waiting, last=False)
        self._counted(group, 1)

    def remove(self, waiting: Waiting) -> None:
        """The request waits no more. Raises KeyError when it does not wait here."""
        group = self._classes[waiting.class_name]
        queue = group.users[waiting.user]
        del queue[waiting]
        if not queue:
            del group.users[waiting.user]
            group.turns.leave(waiting.user)
        self._counted(group, -1)
        if group.count == 0:
            self._turns.leave(waiting.class_name)

    def most_over_share(self) -> Waiting | None:
        """The newest request of the user with the most, in the class with the most for its weight."""
        held = [group for group in self._classes.values() if group.count]
        if not held:
            return None
        group = max(held, key=lambda one: one.count / one.weight)
        fullest: OrderedDict[Waiting, None] = max(group.users.values(), key=len)
        return next(reversed(fullest))

    def would_give_way(self, there: Waiting, newcomer: Waiting) -> bool:
        """Whether `there`, of this level, has more than its share beside `newcomer`, which would be one more."""
        if there.class_name != newcomer.class_name:
            return self._filled(there.class_name) > self._filled(newcomer.class_name, newcomer)
        users = self._classes[there.class_name].users
        return len(users[there.user]) > len(users.get(newcomer.user, ())) + 1

    def _filled(self, name: str, newcomer: Waiting | None = None) -> float:
        group = self._classes.get(name)
        if newcomer is not None:
            return ((group.count if group else 0) + 1) / newcomer.weight
        return group.count / group.weight if group else 0.0

    def _group(self, waiting: Waiting) -> _Class:
        return self._classes.setdefault(waiting.class_name, _Class(waiting.weight))

    def _counted(self, group: _Class, by: int) -> None:
        group.count += by
        self._count += by
