"""Requests that acts hold: answered 429 instead of served, until the act ends."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from tidegate.domain.actions.effects import NONE, Effects
from tidegate.domain.refusal import Reason, Refusal
from tidegate.store.nudged import Nudged
from tidegate.store.ports import Acts, DecisionLog, Nudges

LONGEST_RETRY_SECONDS: Final = 60
"""An alert may be over long before its act would be: clients look again within a minute."""


LATE_SECONDS: Final = 10
"""Where no controller ends an act whose time is over, nobody is turned away for it for longer than this."""


class HoldStore(Acts, DecisionLog, Nudges, Protocol):
    """What is followed."""


class Holds:
    """The acts that hold requests. `clock` gives Unix milliseconds by the store's clock."""

    def __init__(self, clusters: Sequence[str], clock: Callable[[], int]) -> None:
        self._clusters, self._clock = clusters, clock
        self.effects: Effects = NONE

    def refusal(self, cluster: str, model: str, class_name: str, priority: int) -> Refusal | None:
        """What a request that an act holds is answered; None for any other."""
        if not self.effects.holds:
            return None
        hold = self.effects.held(cluster, model, class_name, priority)
        if hold is None:
            return None
        left = LONGEST_RETRY_SECONDS if hold.until_ms is None else math.ceil((hold.until_ms - self._clock()) / 1000)
        if left <= -LATE_SECONDS:
            return None
        why = f"Requests of class `{class_name}` and priority {priority} are held for now."
        return Refusal(Reason.HELD, why, retry_after_seconds=min(max(left, 1), LONGEST_RETRY_SECONDS))

    async def follow(self, store: HoldStore, nudged: Nudged, tick_seconds: float) -> None:
        """Read each tick, and at once on a word that something was decided. Raises a StoreError where the store fails.

        What is in force stays then, and where the store was emptied: it has no weights either.
        """
        while True:
            effects = await store.effects()
            if effects != NONE or self.effects == NONE or any((await store.effective(self._clusters)).values()):
                self.effects = effects
            await nudged.within(tick_seconds)
