"""What the terms of a cost look at: one request, the replicas that may take it, and the moment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from tidegate.domain.pick.replica import Replica
from tidegate.domain.pick.settings import PickSettings
from tidegate.domain.pick.work import Work

SHORTER_PART: Final = 0.75


class Situation(msgspec.Struct):
    """Lists run along `replicas`. `uncached` are tokens to prefill, `waits` seconds until those queued are prefilled,
    `rooms` seconds until there is KV cache for it (None: everywhere at once).

    `sessions` tells which replica a session was last sent to; costs within `equal_seconds` are equal; `mean_wait` is
    the mean of `waits`.
    """

    work: Work
    replicas: Sequence[Replica]
    now_ms: float
    settings: PickSettings
    uncached: list[float]
    waits: list[float]
    rooms: list[float] | None
    sessions: dict[str, str] = msgspec.field(default_factory=dict)
    equal_seconds: float = 0.0
    mean_wait: float = 0.0

    def __post_init__(self) -> None:
        self.mean_wait = sum(self.waits) / len(self.waits)

    @property
    def backlog(self) -> float:
        """Seconds that the fleet is behind: the mean wait, at most four times the mean of the less busy replicas.

        A queue at one replica alone is none of the fleet's: a miss elsewhere costs nobody anything, and a long prompt
        must not follow its prefix into a queue without end.
        """
        if not self.mean_wait:
            return 0.0
        shorter = sorted(self.waits)[: max(1, int(len(self.waits) * SHORTER_PART))]
        return min(self.mean_wait, 4 * sum(shorter) / len(shorter))
