"""What other processes have presumably just sent: as much as this one did, to the same replicas.

Several ext_procs share the arrivals evenly and tell one another their dispatches some milliseconds later. In between
each sees the same cheapest replica, and all would send there: a herd, and a larger one the more they share. So each
dispatch counts once for every process until the others' word of theirs is there. Each then spreads its own part evenly,
as if it were alone on a fleet of that share.

Between bursts the others send all the time, as much as this one does on average: so many tokens are somewhere that
nobody here knows of yet. Costs that lie closer than that are as good as equal, since whoever seems cheapest here
seems so to everyone.
"""

from __future__ import annotations

import math
from collections import deque
from typing import Final

from tidegate.domain.pick.queued import Queued

MIRROR_MS: Final = 10.0
"""Milliseconds until the others' dispatches of the same moment are known: a message every 5, and its way."""
RATE_MS: Final = 1_000.0
"""About how far back this process's own rate looks."""


class Mirror:
    """`others` is how many processes send beside this one; with 0 it does nothing. Not safe across threads."""

    def __init__(self) -> None:
        self.others = 0
        self._kept: deque[tuple[float, Queued, float]] = deque()
        self._lately, self._at_ms = 0.0, -math.inf

    def add(self, queued: Queued, tokens: float, now_ms: float) -> None:
        """This process sent `tokens` there."""
        if self.others:
            self._lately = tokens + self._lately * math.exp(min(0.0, self._at_ms - now_ms) / RATE_MS)
            self._at_ms = now_ms
            tokens *= self.others
            queued.mirror(tokens, now_ms)
            self._kept.append((now_ms + MIRROR_MS, queued, tokens))

    @property
    def unseen(self) -> float:
        """Tokens that the others have sent, on average, without our knowing; by the rate at the last dispatch."""
        return self.others * self._lately * MIRROR_MS / RATE_MS

    def expire(self, now_ms: float) -> None:
        """Forget what is known by now."""
        kept = self._kept
        while kept and kept[0][0] <= now_ms:
            _, queued, tokens = kept.popleft()
            queued.mirror(-tokens, now_ms)
