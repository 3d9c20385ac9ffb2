"""What reading one engine's pages costs the loop that all engines of a node share. Pure but for its clock."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

MOST_SHARE: Final = 0.1
"""Of the loop's time that one engine may take; a page of 10 ms is read at 10 Hz, one of 100 ms once a second."""


class Effort:
    """Adds up the thread's CPU seconds that are spent on one engine. `clock` counts them."""

    def __init__(self, clock: Callable[[], float] = time.thread_time) -> None:
        self._clock = clock
        self._seconds = 0.0

    @contextmanager
    def spent(self) -> Iterator[None]:
        """Count what happens inside, which may not await."""
        began = self._clock()
        try:
            yield
        finally:
            self._seconds += self._clock() - began

    def rest_seconds(self) -> float:
        """How long the engine has to wait from its last scrape to its next for what was spent since the last call."""
        seconds, self._seconds = self._seconds, 0.0
        return seconds / MOST_SHARE
