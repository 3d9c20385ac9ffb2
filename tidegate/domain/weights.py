"""Weights: which share of a cluster's traffic each replica gets, and why."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tidegate.domain.load import UNKNOWN_LOAD, LoadIndex, LoadRules, load_index
from tidegate.domain.sample import EndpointSample, Status
from tidegate.domain.topology import Kind, Precision

FULL: Final = 1000
SMALLEST_SHARE: Final = 0.01
LARGEST_SHARE: Final = 0.99
HOLD_RATIO: Final = 0.02

RELATIVE_CAPACITY: Final[Mapping[Precision, float]] = {
    Precision.FP16: 1.0,
    Precision.BF16: 1.0,
    Precision.FP8: 1.0,
    Precision.INT8: 1.0,
    Precision.INT4: 1.36,
}
"""Tokens/s relative to FP16 of the same model and card. Source: design, policy 4 (INT4 measured as 1.36 times
FP16); formats without a measured figure count as FP16."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """One replica as the weight rule sees it.

    `last_automatic` (0…1000; 0 while it took no traffic) is the automatic weight decided before; `pinned`
    (0…1000) and `drained` (any text) are the operator's.
    """

    address: str
    precision: Precision = Precision.FP16
    sample: EndpointSample | None = None
    pinned: int | None = None
    drained: str | None = None
    last_automatic: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What one replica gets: `weight` 0…1000 for Envoy, with everything that led there."""

    address: str
    weight: int
    automatic: int
    capacity: float
    load: LoadIndex
    status: Status | None
    age_ms: int | None
    pinned: int | None
    drained: str | None
    reason: str

    def explain(self) -> dict[str, Any]:
        """The JSON of `explain:{cluster}`. `status` is null when no fresh sample tells it."""
        return {
            "load": self.load.as_dict(),
            "capacity": round(self.capacity, 4),
            "automatic": self.automatic,
            "pinned": self.pinned,
            "drained": self.drained,
            "status": self.status.value if self.status else None,
            "age_ms": self.age_ms,
            "stale": self.status is None,
            "reason": self.reason,
        }


def automatic_weight(capacity: float, load: float) -> int:
    """capacity x clip(1 - load, 0.01, 0.99) in thousandths, rounded, at least 1.

    `capacity` lies in (0, 1] (1 is the cluster's largest), `load` in [0, 1]. Range 1…990; it never rises with
    load.
    """
    share = min(LARGEST_SHARE, max(SMALLEST_SHARE, 1.0 - load))
    return max(1, round(FULL * capacity * share))


def held(last: int | None, target: int) -> int:
    """The last weight while the target is within 2 % (at least 1) of it, so that noise is not pushed."""
    if last is not None and last > 0 and abs(target - last) <= max(1.0, HOLD_RATIO * last):
        return last
    return target


def decide(
    replicas: Sequence[Replica], *, kind: Kind, now_ms: int, sample_ttl_ms: int, rules: LoadRules
) -> list[Decision]:
    """Decide one cluster's weights, in the order given. `now_ms` is Unix time, `sample_ttl_ms` an age.

    First rule that applies: a drain gives 0; a fresh sample whose status takes no traffic gives 0; a pin
    gives what was typed; a fresh sample with a known load gives the automatic weight; a fresh one without
    gives the weight at the mean load of the known; a stale or missing one keeps its last automatic weight
    (fail static), else the weight at that mean. With no load known the mean is 0: plain capacity decides. A last
    weight of 0 stays for as long as another replica has a weight: of a cluster that nobody sees, all are tried.
    """
    largest = max((RELATIVE_CAPACITY[r.precision] for r in replicas), default=1.0)
    fresh = {r.address: _fresh(r.sample, now_ms, sample_ttl_ms) for r in replicas}
    loads = {address: load_index(sample, kind, rules) if sample else UNKNOWN_LOAD for address, sample in fresh.items()}
    neutral = _mean(load.total for address, load in loads.items() if _serves(fresh[address]))
    others = any(_serves(fresh[r.address]) or (fresh[r.address] is None and r.last_automatic) for r in replicas)
    return [
        _decide_one(
            replica,
            fresh[replica.address],
            loads[replica.address],
            capacity=RELATIVE_CAPACITY[replica.precision] / largest,
            neutral=neutral,
            others=bool(others),
            now_ms=now_ms,
        )
        for replica in replicas
    ]


def _decide_one(
    replica: Replica,
    sample: EndpointSample | None,
    load: LoadIndex,
    *,
    capacity: float,
    neutral: float,
    others: bool,
    now_ms: int,
) -> Decision:
    automatic, why = _automatic(replica, sample, load, capacity, neutral, others=others)
    weight, reason = _commanded(replica, sample, automatic, why)
    return Decision(
        address=replica.address,
        weight=weight,
        automatic=automatic,
        capacity=capacity,
        load=load,
        status=sample.status if sample else None,
        age_ms=replica.sample.age_ms(now_ms) if replica.sample else None,
        pinned=replica.pinned,
        drained=replica.drained,
        reason=reason,
    )


def _automatic(
    replica: Replica, sample: EndpointSample | None, load: LoadIndex, capacity: float, neutral: float, *, others: bool
) -> tuple[int, str]:
    if sample is not None and not sample.status.takes_traffic:
        return 0, f"it is {sample.status.value}"
    if sample is None and (replica.last_automatic or (replica.last_automatic == 0 and others)):
        return replica.last_automatic, "no fresh sample: the last automatic weight stays"
    if sample is None:
        return automatic_weight(capacity, neutral), "no fresh sample: the cluster's mean load is assumed"
    if load.total is None:
        return _next(replica, capacity, neutral), "load unknown: the cluster's mean load is assumed"
    return _next(replica, capacity, load.total), "capacity x (1 - load)"


def _next(replica: Replica, capacity: float, load: float) -> int:
    return held(replica.last_automatic, automatic_weight(capacity, load))


def _commanded(replica: Replica, sample: EndpointSample | None, automatic: int, why: str) -> tuple[int, str]:
    if replica.drained is not None:
        return 0, "drained by the operator" + (f": {replica.drained}" if replica.drained else "")
    if sample is not None and not sample.status.takes_traffic:
        return 0, why if replica.pinned is None else f"{why}; pinned at {replica.pinned} once it serves"
    if replica.pinned is not None:
        return replica.pinned, f"pinned at {replica.pinned} by the operator"
    return automatic, why


def _fresh(sample: EndpointSample | None, now_ms: int, ttl_ms: int) -> EndpointSample | None:
    return sample if sample is not None and sample.is_fresh(now_ms, ttl_ms) else None


def _serves(sample: EndpointSample | None) -> bool:
    return sample is not None and sample.status.takes_traffic


def _mean(loads: Iterable[float | None]) -> float:
    known = [load for load in loads if load is not None]
    return sum(known) / len(known) if known else 0.0
