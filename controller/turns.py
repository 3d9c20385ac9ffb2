"""Which clusters a tick looks at, so that a tick of a large fleet takes no longer than one of a small fleet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

REPLICAS_A_TICK: Final = 250
"""At four ticks a second each of 1,000 replicas is decided on once a second, and each of 250 at every tick."""


@dataclass(slots=True)
class Turns:
    """Clusters take turns: each tick those that come next, while their replicas are no more than `most` together.

    One with more replicas than that waits for as many ticks as it is larger. `credit` is how many replicas may be
    looked at, `last` the cluster whose turn was the last one.
    """

    most: int = REPLICAS_A_TICK
    credit: int = 0
    last: str | None = None

    def take(self, sizes: Mapping[str, int]) -> set[str]:
        """The clusters of this tick, of `sizes` replicas each; over the ticks, all come equally often."""
        self.credit = min(self.credit + self.most, max(self.most, *sizes.values(), 0))
        names, taken = list(sizes), set[str]()
        begin = names.index(self.last) + 1 if self.last is not None and self.last in sizes else 0
        for name in names[begin:] + names[:begin]:
            if sizes[name] > self.credit:
                break
            self.credit -= sizes[name]
            self.last = name
            taken.add(name)
        return taken
