"""Which part of a cluster's traffic each replica gets by weight, and what an operator's order would make of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tidegate.domain.load import LoadRules
from tidegate.domain.sample import Status
from tidegate.domain.weight_settings import WeightPolicy
from tidegate.domain.weights import Rules, target_share


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


def settled(explained: Mapping[str, Mapping[str, Any]], rules: Rules) -> dict[str, int]:
    """The automatic weights (1…1000) by address that `rules` lead to while everything stays as explained.

    capacity × (1 − load) without smoothing, ramps and steps; a replica of unknown load counts as the mean of the
    others, as the controller does it. One without a capacity is left out. Capacities are those explained, which the
    policy `static` would take from the number format.
    """
    felt = {address: _felt(why.get("load") or {}, rules) for address, why in explained.items()}
    known = [load for load in felt.values() if load is not None]
    neutral = sum(known) / len(known) if known else 0.0
    return {
        address: max(1, round(1000 * target_share(why["capacity"], neutral if load is None else load, rules.weight)))
        for (address, why), load in zip(explained.items(), felt.values(), strict=True)
        if why.get("capacity") is not None
    }


def _felt(parts: Mapping[str, Any], rules: Rules) -> float | None:
    if rules.weight.policy == WeightPolicy.STATIC:
        return 0.0
    return parts.get("latency") if rules.weight.policy == WeightPolicy.LATENCY else _total(parts, rules.load)


def _total(parts: Mapping[str, Any], rules: LoadRules) -> float | None:
    pairs = [(getattr(rules.weights, name), parts.get(name)) for name in ("latency", "vram", "entropy")]
    known = [(weight, part) for weight, part in pairs if part is not None]
    scale = sum(weight for weight, _ in known)
    return sum(weight * part for weight, part in known) / scale if scale > 0 else None


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
