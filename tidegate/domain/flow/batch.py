"""Arrivals of one burst, held for a moment and placed as a whole."""

from __future__ import annotations

from typing import Generic, TypeVar

from tidegate.domain.flow.settings import FlowSettings

T = TypeVar("T")


class BatchWindow(Generic[T]):
    """Opens with the first arrival; closes when its time has passed or it holds enough. Belongs to the event loop."""

    def __init__(self) -> None:
        self._held: list[tuple[int, int, T]] = []
        self._tokens = 0
        self.closes_ms: int | None = None

    def __len__(self) -> int:
        return len(self._held)

    def add(self, one: T, priority: int, prefill_tokens: int, now_ms: int, settings: FlowSettings) -> bool:
        """Hold an arrival. True when the window is full and has to be emptied."""
        if self.closes_ms is None:
            self.closes_ms = now_ms + settings.batch_window_ms
        self._held.append((priority, prefill_tokens, one))
        self._tokens += prefill_tokens
        return len(self._held) >= settings.batch_max_requests or self._tokens >= settings.batch_max_prefill_tokens

    def discard(self, gone: T) -> bool:
        """An arrival is no longer wanted. False when it is not held."""
        left = [held for held in self._held if held[2] is not gone]
        if len(left) == len(self._held):
            return False
        self._held = left
        self._tokens = sum(tokens for _, tokens, _ in left)
        if not left:
            self.closes_ms = None
        return True

    def empty(self) -> list[T]:
        """Everything held, in the order in which it is to be placed, each on what the ones before it left.

        The urgent first, then the longest prompts: the large ones are spread while there is choice, and the small ones
        level what is left (Graham: Bounds on multiprocessing timing anomalies, 1969). Similar lengths stand side by
        side, so that they meet the same replicas.
        """
        held, self._held, self._tokens, self.closes_ms = self._held, [], 0, None
        return [one for _, _, one in sorted(held, key=lambda entry: (entry[0], -entry[1]))]
