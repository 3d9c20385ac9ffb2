"""Waits until somebody says that something was decided, or until it is time to look anyway."""

from __future__ import annotations

import asyncio
from typing import Final

from tidegate.domain.errors import StoreError
from tidegate.store.ports import Nudges

RETRY_SECONDS: Final = 1.0


class Nudged:
    """What `listen` hears, for one task that waits in `within`. Words between two waits count as one.

    A store that says nothing, or is away, costs the time to the next look and no more.
    """

    def __init__(self, store: Nudges) -> None:
        self._store, self._heard = store, asyncio.Event()

    async def listen(self) -> None:
        """Hear every word until cancelled; a store that fails is asked again each second."""
        while True:
            try:
                async for _ in self._store.nudges():
                    self._heard.set()
            except StoreError:  # whoever reads decisions says it
                await asyncio.sleep(RETRY_SECONDS)

    async def within(self, seconds: float) -> bool:
        """Return at the first word since the last wait: True. False when `seconds` passed without one."""
        try:
            async with asyncio.timeout(seconds):
                await self._heard.wait()
        except TimeoutError:
            return False
        self._heard.clear()
        return True
