"""What one look says of a cluster's replicas, as the controller explained them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tidegate.domain.sample import Status

PARTS: Final = ("latency", "vram", "entropy")


@dataclass(frozen=True, slots=True, kw_only=True)
class Crew:
    """Replicas of one cluster by what may be expected of them.

    `ready` take traffic, `coming` are loading, `leaving` are drained, `unknown` have no fresh sample or cannot be
    reached. Those asleep are in none. `load` (0…1) is the mean of the ready ones whose load is known, None where none
    is. `backlog` is how many requests wait for each that runs, at the engines and in the gateway. `idle`: every
    replica is known and one is ready, and none has a request. `asked`: requests came, and no replica was there to
    take them. `part` is the largest part of the load.
    """

    ready: int = 0
    coming: int = 0
    leaving: int = 0
    unknown: int = 0
    load: float | None = None
    backlog: float = 0.0
    idle: bool = False
    asked: bool = False
    part: str = ""

    @property
    def present(self) -> int:
        """Those that are there to stay, and may be."""
        return self.ready + self.coming + self.unknown

    @property
    def demand(self) -> float | None:
        """How many full replicas the requests would fill, at least 0; None where no ready replica tells its load.

        ready × mean load × (1 + backlog). The index ends at 1 where a replica is full; what waits is beyond it.
        """
        if self.load is None:
            return 0.0 if self.idle else None
        return self.ready * self.load * (1.0 + self.backlog)


def crew_of(explained: Mapping[str, Mapping[str, Any]], *, backlog: float = 0.0, asked: bool = False) -> Crew:
    """The crew of a cluster from its `explain:`, by address."""
    counts = {"ready": 0, "coming": 0, "leaving": 0, "unknown": 0}
    ready = []
    for why in explained.values():
        place = _place(why)
        if place in counts:
            counts[place] += 1
        if place == "ready":
            ready.append(why)
    loads = [why.get("load") or {} for why in ready]
    idle = bool(ready) and not asked and counts["unknown"] == 0 == counts["coming"]
    return Crew(
        **counts,
        load=_mean(load.get("total") for load in loads),
        backlog=backlog,
        idle=idle and all(why.get("status") == Status.IDLE for why in ready),
        asked=asked,
        part=_largest(loads),
    )


def _place(why: Mapping[str, Any]) -> str:
    status = why.get("status")
    if why.get("drained") is not None or why.get("pinned") == 0 or status == Status.DRAINING:
        return "leaving"
    if status in {Status.READY, Status.IDLE}:
        return "ready"
    if status == Status.LOADING:
        return "coming"
    return "asleep" if status == Status.ASLEEP else "unknown"


def _largest(loads: Iterable[Mapping[str, Any]]) -> str:
    parts = {part: _mean(load.get(part) for load in loads) for part in PARTS}
    known = {part: mean for part, mean in parts.items() if mean is not None}
    return max(known, key=lambda part: known[part], default="")


def _mean(values: Iterable[object]) -> float | None:
    known = [float(value) for value in values if isinstance(value, int | float)]
    return sum(known) / len(known) if known else None
