"""Weights: which share of a cluster's traffic each replica gets, and why.

sample ─▶ capacity × (1 − load) ─▶ windowed EWMA ─▶ steady ─▶ ramp, step limit, bounds ─▶ automatic weight
                                                               drain, status, pin      ─▶ weight
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from tidegate.domain import ewma, load, steady, weight_settings
from tidegate.domain.capacity import NOTHING, RELATIVE_CAPACITY, Measured, capacities, observe
from tidegate.domain.ewma import EwmaSettings, Smoothed, smooth
from tidegate.domain.load import UNKNOWN_LOAD, LoadIndex, LoadRules, load_index
from tidegate.domain.memory import Memory
from tidegate.domain.ramp import limited, ramp_part
from tidegate.domain.sample import EndpointSample, Status
from tidegate.domain.steady import Steady, SteadySettings
from tidegate.domain.topology import Kind, Precision
from tidegate.domain.weight_settings import WeightPolicy, WeightSettings

FULL: Final = 1000
HOLD_RATIO: Final = 0.02
INPUT_EVERY_MS: Final = 200
"""Least time between two inputs of the EWMA: a look that operators' keys caused is no tick."""
LONGEST_STEP_SECONDS: Final = 5.0
"""What a decision after a longer silence counts as: weights do not leap because nobody looked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """How one cluster's weights are made: the values of its tunables."""

    load: LoadRules = load.DEFAULT
    weight: WeightSettings = weight_settings.DEFAULT
    ewma: EwmaSettings = ewma.DEFAULT


DEFAULT: Final = Rules()


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """One replica as the weight rule sees it.

    `entropy` (0…1) is its request-class mix; `memory` is what the last decision left (None: never decided on);
    `pinned` (0…1000) and `drained` (any text) are the operator's.
    """

    address: str
    precision: Precision = Precision.FP16
    sample: EndpointSample | None = None
    entropy: float | None = None
    pinned: int | None = None
    drained: str | None = None
    memory: Memory | None = None


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
    memory: Memory

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
            **self.memory.published(),
        }


@dataclass(slots=True)
class _Look:
    """A replica with what this moment adds: a sample only if it is fresh, and where its share should be.

    Local to one call of `decide`, which fills in the last three; not frozen, since that takes three times as long.
    """

    replica: Replica
    sample: EndpointSample | None
    measured: Measured
    load: LoadIndex
    serves: bool
    capacity: float = 1.0
    target: float = 0.0
    smoothed: Smoothed | None = None


def target_share(capacity: float, load: float, settings: WeightSettings = weight_settings.DEFAULT) -> float:
    """capacity × (1 − load), clipped to [weight.min, weight.max]; both arguments lie in [0, 1].

    It never rises with load, nor falls with capacity.
    """
    return _bounded(capacity * (1.0 - load), settings)


def held(last: int | None, target: int) -> int:
    """The last weight while the target is within 2 % (at least 1) of it, so that noise is not pushed."""
    if last is not None and last > 0 and abs(target - last) <= max(1.0, HOLD_RATIO * last):
        return last
    return target


def decide(
    replicas: Sequence[Replica], *, kind: Kind, now_ms: int, sample_ttl_ms: int, rules: Rules = DEFAULT
) -> list[Decision]:
    """Decide one cluster's weights, in the order given. `now_ms` is Unix time, `sample_ttl_ms` an age.

    First rule that applies: a drain gives 0; a fresh sample whose status takes no traffic gives 0; a pin
    gives what was typed; a fresh sample with a known load gives the automatic weight; a fresh one without
    gives the weight at the mean load of the known; a stale or missing one keeps its last automatic weight
    (fail static), else the weight at that mean. With no load known the mean is 0: plain capacity decides. A last
    weight of 0 stays for as long as another replica has a weight: of a cluster that nobody sees, all are tried.

    A replica that begins to serve (never decided on, or at weight 0 before) while another has a weight ramps up.
    """
    looks = _looks(replicas, kind, now_ms, sample_ttl_ms, rules)
    values = _steady(looks, now_ms, rules.weight)
    others = any(look.serves or (look.sample is None and _automatic(look)) for look in looks)
    carrying = [look.replica.address for look in looks if look.replica.memory and look.replica.memory.weight]
    return [
        _decided(
            look,
            values.get(look.replica.address),
            carried=any(address != look.replica.address for address in carrying),
            others=others,
            now_ms=now_ms,
            settings=rules.weight,
        )
        for look in looks
    ]


# --- where each share should be -----------------------------------------------------------------------------


def _looks(replicas: Sequence[Replica], kind: Kind, now_ms: int, ttl_ms: int, rules: Rules) -> list[_Look]:
    looks = [_look(replica, kind, now_ms, ttl_ms, rules.load) for replica in replicas]
    relative = _relative([(look.replica, look.measured) for look in looks], rules.weight)
    neutral = _mean(_felt(look.load, rules.weight) for look in looks if look.serves)
    for look in looks:
        _aim(look, relative[look.replica.address], neutral, now_ms, rules)
    return looks


def _look(replica: Replica, kind: Kind, now_ms: int, ttl_ms: int, rules: LoadRules) -> _Look:
    sample = replica.sample if replica.sample is not None and replica.sample.is_fresh(now_ms, ttl_ms) else None
    known = replica.memory.measured if replica.memory else NOTHING
    load = load_index(sample, kind, rules, entropy=replica.entropy) if sample else UNKNOWN_LOAD
    serves = sample is not None and sample.status.takes_traffic
    return _Look(replica, sample, observe(known, sample), load, serves)


def _relative(measured: Sequence[tuple[Replica, Measured]], settings: WeightSettings) -> dict[str, float]:
    if settings.policy != WeightPolicy.STATIC:
        return capacities({replica.address: (replica.precision, one) for replica, one in measured})
    return capacities({replica.address: (replica.precision, NOTHING) for replica, _ in measured})


def _felt(index: LoadIndex, settings: WeightSettings) -> float | None:
    """What of the load index the policy follows."""
    if settings.policy == WeightPolicy.STATIC:
        return 0.0
    return index.latency if settings.policy == WeightPolicy.LATENCY else index.total


def _aim(look: _Look, capacity: float, neutral: float, now_ms: int, rules: Rules) -> None:
    felt = _felt(look.load, rules.weight)
    look.capacity = capacity
    look.target = target_share(capacity, neutral if felt is None else felt, rules.weight)
    if look.serves:
        look.smoothed = _smoothed(look.replica.memory, look.target, now_ms, rules.ewma)


def _smoothed(memory: Memory | None, target: float, now_ms: int, settings: EwmaSettings) -> Smoothed:
    if memory is None or memory.smoothed is None:
        return smooth(None, target, settings)
    if now_ms - memory.smoothed_at_ms < INPUT_EVERY_MS:
        return memory.smoothed
    return smooth(memory.smoothed, target, settings)


def _steady(looks: Sequence[_Look], now_ms: int, settings: WeightSettings) -> dict[str, Steady]:
    memories = {look.replica.address: look.replica.memory for look in looks if look.serves}
    before = {address: memory.steady for address, memory in memories.items() if memory and memory.steady}
    last_ms = max((memory.at_ms for memory in memories.values() if memory), default=now_ms)
    averages = SteadySettings(settle_seconds=settings.settle_seconds, alarm_ratio=settings.alarm_ratio)
    targets = {look.replica.address: look.smoothed.value for look in looks if look.smoothed}
    return steady.steady(before, targets, _seconds(last_ms, now_ms), averages)


# --- what each gets -----------------------------------------------------------------------------------------


def _decided(
    look: _Look, value: Steady | None, *, carried: bool, others: bool, now_ms: int, settings: WeightSettings
) -> Decision:
    memory, why = _remember(look, value, carried=carried, others=others, now_ms=now_ms, settings=settings)
    replica = look.replica
    weight, reason = _commanded(look, memory.automatic, why)
    return Decision(
        address=replica.address,
        weight=weight,
        automatic=memory.automatic,
        capacity=look.capacity,
        load=look.load,
        status=look.sample.status if look.sample else None,
        age_ms=replica.sample.age_ms(now_ms) if replica.sample else None,
        pinned=replica.pinned,
        drained=replica.drained,
        reason=reason,
        memory=memory if memory.weight == weight else replace(memory, weight=weight),
    )


def _remember(
    look: _Look, value: Steady | None, *, carried: bool, others: bool, now_ms: int, settings: WeightSettings
) -> tuple[Memory, str]:
    """The automatic weight in the memory that the next decision goes on from, and why it is that."""
    memory, sample = look.replica.memory, look.sample
    empty = Memory(at_ms=now_ms, weight=0, automatic=0, share=0.0, measured=look.measured)
    if sample is not None and not look.serves:
        return empty, f"it is {sample.status.value}"
    if value is None and memory is not None and (memory.automatic or others):
        return memory, "no fresh sample: the last automatic weight stays"
    if value is None:
        automatic = max(1, round(FULL * look.target))
        return (
            replace(empty, automatic=automatic, share=look.target),
            "no fresh sample: the cluster's mean load is assumed",
        )
    return _adapted(look, value, carried=carried, now_ms=now_ms, settings=settings)


def _adapted(look: _Look, value: Steady, *, carried: bool, now_ms: int, settings: WeightSettings) -> tuple[Memory, str]:
    before = look.replica.memory
    seconds = _seconds(before.at_ms, now_ms) if before else 0.0
    begins = carried and _free(look.replica) and (before is None or before.weight == 0)
    ramping = 0.0 if begins else _ramping(before, seconds, settings)
    share = ramp_part(ramping, settings.ramp_seconds) * value.value
    if before is not None and not begins:
        share = limited(before.share, share, seconds, settings.most_step)
    share = _bounded(share, settings)
    due = before is None or look.smoothed is not before.smoothed
    automatic = held(before.automatic if before and not begins else None, max(1, round(FULL * share)))
    memory = Memory(
        at_ms=now_ms,
        weight=automatic,
        automatic=automatic,
        share=share,
        ramping_seconds=ramping,
        smoothed=look.smoothed,
        smoothed_at_ms=now_ms if due or before is None else before.smoothed_at_ms,
        steady=value,
        measured=look.measured,
    )
    return memory, _why(look, ramping, settings)


def _ramping(before: Memory | None, seconds: float, settings: WeightSettings) -> float | None:
    if before is None or before.ramping_seconds is None:
        return None
    after = before.ramping_seconds + seconds
    return after if after < settings.ramp_seconds else None


_REASONS: Final[Mapping[str, str]] = {
    WeightPolicy.STATIC: "capacity by number format",
    WeightPolicy.LOAD: "capacity x (1 - load)",
    WeightPolicy.LATENCY: "capacity x (1 - latency part)",
}


def _why(look: _Look, ramping: float | None, settings: WeightSettings) -> str:
    why = _REASONS[settings.policy]
    if _felt(look.load, settings) is None:
        why = "load unknown: the cluster's mean load is assumed"
    return why if ramping is None else f"{why}, ramping up"


def _commanded(look: _Look, automatic: int, why: str) -> tuple[int, str]:
    replica = look.replica
    if replica.drained is not None:
        return 0, "drained by the operator" + (f": {replica.drained}" if replica.drained else "")
    if look.sample is not None and not look.serves:
        return 0, why if replica.pinned is None else f"{why}; pinned at {replica.pinned} once it serves"
    if replica.pinned is not None:
        return replica.pinned, f"pinned at {replica.pinned} by the operator"
    return automatic, why


def _free(replica: Replica) -> bool:
    """No order holds its weight."""
    return replica.pinned is None and replica.drained is None


def _automatic(look: _Look) -> int:
    return look.replica.memory.automatic if look.replica.memory else 0


def _bounded(share: float, settings: WeightSettings) -> float:
    return max(settings.least, min(settings.most, share))


def _seconds(last_ms: int, now_ms: int) -> float:
    return min(LONGEST_STEP_SECONDS, max(0, now_ms - last_ms) / 1000)


def _mean(loads: Iterable[float | None]) -> float:
    known = [load for load in loads if load is not None]
    return sum(known) / len(known) if known else 0.0


__all__ = [
    "DEFAULT",
    "RELATIVE_CAPACITY",
    "Decision",
    "Memory",
    "Replica",
    "Rules",
    "decide",
    "held",
    "target_share",
]
