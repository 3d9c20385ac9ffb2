"""How often a hook may be called: a bucket of tokens that fills at a rate."""

from __future__ import annotations

import math
from collections.abc import Callable


class Bucket:
    """`burst` calls at once, `per_second` for long. `monotonic` gives seconds."""

    def __init__(self, burst: int, per_second: float, monotonic: Callable[[], float]) -> None:
        self._burst, self._rate, self._monotonic = burst, per_second, monotonic
        self._left, self._at = float(burst), monotonic()

    def take(self) -> int:
        """0 where the call may be made, else after how many whole seconds to try again."""
        now = self._monotonic()
        self._left = min(self._burst, self._left + (now - self._at) * self._rate)
        self._at = now
        if self._left >= 1:
            self._left -= 1
            return 0
        return math.ceil((1 - self._left) / self._rate)
