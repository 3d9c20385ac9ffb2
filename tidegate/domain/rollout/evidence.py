"""What both versions did since a step began, and lately: figures that add up over instances, restarts and failovers.

Instances of the outcomes service tell sums since they began. What came between two looks is added here, so that a
step's window is its own, an instance that ends takes nothing along that was seen, and a successor of the controller
goes on from what is written down. The first word of an instance that nobody knew counts as its beginning.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from tidegate.domain.outcomes.version import Figures, VersionTold
from tidegate.domain.rollout.rule import judged

BLOCK_MS: Final = 30_000
"""The last minute is the block that fills and the one before: 30 to 60 s."""

ByCluster = dict[str, Figures]
Told = Mapping[str, Mapping[str, VersionTold]]
"""By run of an instance and cluster, what it told of one model."""


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """Figures by cluster: `whole` since the step began, `before` and `now` of the last two blocks.

    `marks` are the sums that each run had told at the last look; `block` numbers the block that fills, from 1;
    `looked_at` is how many judged requests of the canary the last look saw; `reference` are stable's figures of the
    step before, for a step in which stable gets nothing.
    """

    marks: dict[str, ByCluster] = msgspec.field(default_factory=dict)
    whole: ByCluster = msgspec.field(default_factory=dict)
    before: ByCluster = msgspec.field(default_factory=dict)
    now: ByCluster = msgspec.field(default_factory=dict)
    block: int = 1
    block_since_ms: int = 0
    looked_at: int = -1
    reference: Figures | None = None

    def seen(self, cluster: str) -> Figures:
        """Since the step began."""
        return self.whole.get(cluster, Figures())

    def lately(self, cluster: str) -> Figures:
        """In the last minute, of which nothing lies before the step."""
        return self.before.get(cluster, Figures()).plus(self.now.get(cluster, Figures()))

    @property
    def has_past(self) -> bool:
        """Whether the last minute is shorter than the step."""
        return self.block > 2

    def with_told(self, told: Told, clusters: tuple[str, ...], now_ms: int) -> Evidence:
        """With what came since the last look, of these clusters."""
        turned = self._turned(now_ms)
        marks, came = dict(self.marks), ByCluster()
        for run, versions in told.items():
            sums = {name: versions[name].since_the_start() for name in clusters if name in versions}
            known, marks[run] = self.marks.get(run), sums
            for name, figures in sums.items() if known is not None else ():
                came = _added(came, {name: figures.since((known or {}).get(name, Figures()))})
        return msgspec.structs.replace(
            turned, marks=marks, whole=_added(turned.whole, came), now=_added(turned.now, came)
        )

    def next_step(self, told: Told, stable: str, now_ms: int, least: int) -> Evidence:
        """Empty, from here on. Stable's figures stay as the reference where they are of `least` judged requests."""
        figures = self.seen(stable)
        marks = {run: sums for run, sums in self.marks.items() if run in told} or self.marks
        reference = figures if judged(figures) >= least else self.reference
        return Evidence(marks=marks, block_since_ms=now_ms, reference=reference)

    def _turned(self, now_ms: int) -> Evidence:
        """With the block that is to fill at this moment."""
        blocks = max(0, now_ms - self.block_since_ms) // BLOCK_MS
        if not blocks:
            return self
        return msgspec.structs.replace(
            self,
            before=self.now if blocks == 1 else {},
            now={},
            block=self.block + blocks,
            block_since_ms=self.block_since_ms + blocks * BLOCK_MS,
        )


def _added(one: ByCluster, other: ByCluster) -> ByCluster:
    return {**one, **{name: one.get(name, Figures()).plus(figures) for name, figures in other.items()}}
