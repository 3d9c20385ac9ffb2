"""Our own dispatches that no sample has seen yet.

Between two samples every pick sees the same numbers; without this count a burst lands on one replica. It is the
one mutable thing in the picker, and still pure: times are passed in.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

ARRIVAL_MS = 20
"""Milliseconds from a dispatch until the engine counts it: a sample younger than that has not seen it."""


class DispatchLedger:
    """Counts dispatches by address. Not safe across threads."""

    def __init__(self) -> None:
        self._sent: dict[str, deque[int]] = {}
        self._counts: dict[str, int] = {}

    @property
    def counts(self) -> Mapping[str, int]:
        """Unseen dispatches by address, live; an absent address has none."""
        return self._counts

    def dispatched(self, address: str, now_ms: int) -> None:
        """One request goes to `address` at `now_ms` (Unix milliseconds)."""
        sent = self._sent.setdefault(address, deque())
        sent.append(now_ms)
        self._counts[address] = len(sent)

    def sampled(self, address: str, sampled_at_ms: int) -> None:
        """A sample of that time counts every dispatch that had arrived by then."""
        sent = self._sent.get(address)
        if sent is None:
            return
        while sent and sent[0] + ARRIVAL_MS <= sampled_at_ms:
            sent.popleft()
        self._counts[address] = len(sent)

    def forget(self, address: str) -> None:
        """The replica is gone."""
        self._sent.pop(address, None)
        self._counts.pop(address, None)
