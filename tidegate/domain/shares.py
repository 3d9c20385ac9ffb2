"""Which part of a cluster's traffic each replica gets by weight, and what an operator's order would make of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tidegate.domain.sample import Status


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """One replica as the controller last explained it. `weight` is published; all weights are 0…1000, None unknown."""

    address: str
    weight: int | None = None
    automatic: int | None = None
    pinned: int | None = None
    drained: str | None = None
    status: str | None = None

    @property
    def decided(self) -> int | None:
        """The weight by the rule of tidegate.domain.weights: a drain, then a state that serves nobody, then a pin."""
        closed = self.status is not None and self.status not in {s.value for s in Status if s.takes_traffic}
        if self.drained is not None or closed:
            return 0
        return self.automatic if self.pinned is None else self.pinned


def standing(address: str, weight: int | None, why: Mapping[str, Any]) -> Standing:
    """A replica from its published weight and its entry of `explain:`, which may be empty."""
    return Standing(
        address=address,
        weight=weight,
        automatic=why.get("automatic", weight),
        pinned=why.get("pinned"),
        drained=why.get("drained"),
        status=why.get("status"),
    )


def after(replicas: Sequence[Standing], changed: Mapping[str, Standing]) -> list[Standing]:
    """The replicas once some of them were ordered otherwise: `changed` by address; the rest stays as published."""
    return [replace(new, weight=new.decided) if (new := changed.get(r.address)) else r for r in replicas]


def shares(replicas: Sequence[Standing]) -> dict[str, float | None]:
    """Parts of the traffic in [0, 1] by address, summing to 1; all 0 where nobody has a weight, None where unknown."""
    total = sum(r.weight or 0 for r in replicas)
    return {r.address: None if r.weight is None else r.weight / total if total else 0.0 for r in replicas}


def serves_nobody(replicas: Sequence[Standing]) -> bool:
    """Whether a cluster that has replicas gives none of them traffic."""
    return bool(replicas) and all(r.weight == 0 for r in replicas)
