"""The load index: how full one replica is, from 0 (idle) to 1 (full), out of what its sample tells."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tidegate.domain.sample import EndpointSample
from tidegate.domain.topology import Kind
from tidegate.domain.tunable import Tunable, Value, read_fields


@dataclass(frozen=True, slots=True)
class LoadWeights:
    """What each part counts for: at least 0. An unknown part counts nothing; with a sum of 0 the load is unknown."""

    latency: float = 0.45
    vram: float = 0.35
    entropy: float = 0.20


@dataclass(frozen=True, slots=True)
class LoadRules:
    """How parts are weighed and normalised. `latency_target_ms` (> 0) is the p99 that counts as half full."""

    weights: LoadWeights = field(default_factory=LoadWeights)
    latency_target_ms: float = 10_000.0


DEFAULT: Final = LoadRules()
PARTS: Final = ("latency", "vram", "entropy")
"""Of a load index, by name."""


def _part(name: str, default: float, doc: str) -> Tunable:
    return Tunable(name=name, default=default, most=1.0, doc=f"what {doc} counts in the load index; 0 leaves it out")


TUNABLES: Final = (
    _part("load.latency", DEFAULT.weights.latency, "the p99 of a replica's answers"),
    _part(
        "load.vram", DEFAULT.weights.vram, "its memory in use (KV cache of an LLM, GPU memory of a diffusion engine)"
    ),
    _part("load.entropy", DEFAULT.weights.entropy, "how mixed its requests are"),
    Tunable(
        name="load.latency_target_ms",
        default=DEFAULT.latency_target_ms,
        unit="ms",
        least=1.0,
        most=3_600_000.0,
        doc="p99 that counts as half full",
    ),
)


def tuned(base: LoadRules, fields: Mapping[str, str], last: LoadRules) -> tuple[LoadRules, dict[str, str]]:
    """`base` with what `fields` (name → text) sets, and why others are refused; a bad value leaves that of `last`."""
    values, refused = read_fields(TUNABLES, fields, shown(last))
    merged: dict[str, Any] = {**shown(base), **values}
    return (
        LoadRules(
            weights=LoadWeights(merged["load.latency"], merged["load.vram"], merged["load.entropy"]),
            latency_target_ms=merged["load.latency_target_ms"],
        ),
        refused,
    )


def shown(rules: LoadRules) -> dict[str, Value]:
    """The values in force by tunable name."""
    return {
        "load.latency": rules.weights.latency,
        "load.vram": rules.weights.vram,
        "load.entropy": rules.weights.entropy,
        "load.latency_target_ms": rules.latency_target_ms,
    }


@dataclass(frozen=True, slots=True)
class LoadIndex:
    """The parts in [0, 1] and their weighted mean; None is unknown."""

    latency: float | None = None
    vram: float | None = None
    entropy: float | None = None
    total: float | None = None

    def as_dict(self) -> dict[str, float | None]:
        """For `explain:`; four digits are enough to read."""
        return {
            "latency": None if self.latency is None else round(self.latency, 4),
            "vram": None if self.vram is None else round(self.vram, 4),
            "entropy": None if self.entropy is None else round(self.entropy, 4),
            "total": None if self.total is None else round(self.total, 4),
        }


UNKNOWN_LOAD = LoadIndex()


def normal_latency(p99_ms: float | None, target_ms: float) -> float | None:
    """p99 / (p99 + target): 0 at 0 ms, 0.5 at the target, towards 1 without end; strictly rising.

    A p99 below 0 or unknown is None.
    """
    if p99_ms is None or not p99_ms >= 0:
        return None
    if p99_ms == float("inf"):
        return 1.0
    return p99_ms / (p99_ms + target_ms)


def normal_vram(sample: EndpointSample, kind: Kind) -> float | None:
    """Memory in use, clipped to [0, 1].

    An LLM engine pins its GPU memory, so KV occupancy is what moves (design, policy 2); for diffusion it is
    1 - free/total of its GPUs. A total of 0 is unknown.
    """
    if kind is Kind.LLM:
        return None if sample.kv_used_ratio is None else _clip(sample.kv_used_ratio)
    free, total = sample.vram_free_bytes, sample.vram_total_bytes
    if free is None or not total or total < 0:
        return None
    return _clip(1.0 - free / total)


def load_index(sample: EndpointSample, kind: Kind, rules: LoadRules, *, entropy: float | None = None) -> LoadIndex:
    """The load of one replica. `entropy` (0…1) is the request-class mix, known to whoever sees requests.

    The total is Σ wᵢ·partᵢ / Σ wᵢ over the known parts: a missing part is left out and the others count more.
    With nothing known the total is None.
    """
    latency = normal_latency(sample.latency_p99_ms, rules.latency_target_ms)
    vram = normal_vram(sample, kind)
    weights = rules.weights
    scale = weighted = 0.0
    for weight, part in ((weights.latency, latency), (weights.vram, vram), (weights.entropy, entropy)):
        if part is not None:
            scale += weight
            weighted += weight * part
    return LoadIndex(latency, vram, entropy, _clip(weighted / scale) if scale > 0 else None)


def _clip(ratio: float) -> float:
    return min(1.0, max(0.0, ratio))
