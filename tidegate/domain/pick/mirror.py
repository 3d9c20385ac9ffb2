"""What other processes have presumably just sent: as much as this one did, to the same replicas.

Several ext_procs share the arrivals evenly and tell one another their dispatches some milliseconds later. In between
each sees the same cheapest replica, and all would send there: a herd, and a larger one the more they share. So each
dispatch counts once for every process until the others' word of theirs is there. Each then spreads its own part evenly,
as if it were alone on a fleet of that share.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from tidegate.domain.pick.queued import Queued

MIRROR_MS: Final = 10.0
"""Milliseconds until the others' dispatches of the same moment are known: a message every 5, and its way."""


class Mirror:
    """`others` is how many processes send beside this one; with 0 it does nothing. Not safe across threads."""

    def __init__(self) -> None:
        self.others = 0
        self._kept: deque[tuple[float, Queued, float]] = deque()

    def add(self, queued: Queued, tokens: float, now_ms: float) -> None:
        """This process sent `tokens` there."""
        if self.others:
            tokens *= self.others
            queued.mirror(tokens, now_ms)
            self._kept.append((now_ms + MIRROR_MS, queued, tokens))

    def expire(self, now_ms: float) -> None:
        """Forget what is known by now."""
        kept = self._kept
        while kept and kept[0][0] <= now_ms:
            _, queued, tokens = kept.popleft()
            queued.mirror(-tokens, now_ms)
