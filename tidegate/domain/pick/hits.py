"""Whether a replica's cache holds what the index says: the hits that we expected beside those that its engine measured.

Both sides look at about the last minute. Where the engine hits less, the index forgets sooner: others' traffic, or
answers, take room in that cache too. Where it hits as expected, the index may hold more again.
"""

from __future__ import annotations

import math
from typing import Final

WINDOW_MS: Final = 60_000.0
LOOK_MS: Final = 1_000.0
ENOUGH_TOKENS: Final = 50_000.0
"""Prompt tokens sent lately from which on an expectation says anything."""
BELOW: Final = 0.6
"""The part of the expected hit ratio below which the measured one disagrees. What waits in a queue, and prompts whose
tokens are estimates, keep the two apart by a quarter even where the index is right."""
SLACK: Final = 0.02
LESS: Final = 0.98
MORE: Final = 1.01
LEAST_PART: Final = 0.02


class Hits:
    """`part` of a replica's KV cache, in (0, 1], that the index takes to hold our prompts."""

    __slots__ = ("_cached", "_looked_ms", "_sent_ms", "_tokens", "part")

    def __init__(self) -> None:
        self.part = 1.0
        self._cached = self._tokens = 0.0
        self._sent_ms = self._looked_ms = -math.inf

    def sent(self, cached_tokens: int, prompt_tokens: int, now_ms: float) -> None:
        """A prompt was sent of which the index knew so many tokens there."""
        if now_ms > self._sent_ms:
            fade = math.exp((self._sent_ms - now_ms) / WINDOW_MS)
            self._cached, self._tokens, self._sent_ms = self._cached * fade, self._tokens * fade, now_ms
        self._cached += cached_tokens
        self._tokens += prompt_tokens

    def looked(self, measured: float | None, now_ms: float) -> float:
        """The part after a sample said `measured` (0…1, None: nothing). It moves once a second at most."""
        if measured is None or now_ms - self._looked_ms < LOOK_MS or self._tokens < ENOUGH_TOKENS:
            return self.part
        self._looked_ms = now_ms
        if measured < BELOW * self._cached / self._tokens - SLACK:
            self.part = max(LEAST_PART, self.part * LESS)
        else:
            self.part = min(1.0, self.part * MORE)
        return self.part
