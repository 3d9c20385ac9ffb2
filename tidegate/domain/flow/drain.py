"""How fast a queue empties, and so when it is worth coming back."""

from __future__ import annotations

from collections import deque
from math import ceil
from typing import Final

SEEN_MS: Final = 10_000
LEAST_SECONDS: Final = 1
MOST_SECONDS: Final = 600


class DrainRate:
    """Requests that left a queue to be served, over the last SEEN_MS. Times are Unix milliseconds and do not fall."""

    def __init__(self) -> None:
        self._seen: deque[tuple[int, int]] = deque()
        self._count = 0

    def placed(self, count: int, now_ms: int) -> None:
        """So many found a replica."""
        if count:
            self._seen.append((now_ms, count))
            self._count += count

    def per_second(self, now_ms: int) -> float | None:
        """None when nothing left within SEEN_MS: then the rate is unknown, not 0."""
        while self._seen and self._seen[0][0] < now_ms - SEEN_MS:
            self._count -= self._seen.popleft()[1]
        if not self._seen:
            return None
        return self._count * 1000 / max(now_ms - self._seen[0][0], 1000)

    def retry_after_seconds(self, ahead: int, now_ms: int, unknown_seconds: float) -> int:
        """Whole seconds until `ahead` requests and one more have left; `unknown_seconds` where no rate is known."""
        rate = self.per_second(now_ms)
        seconds = unknown_seconds if rate is None else (ahead + 1) / rate
        return min(max(ceil(seconds), LEAST_SECONDS), MOST_SECONDS)
