"""What a run has shown."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from simulator.lab.call import Call
from simulator.lab.conditions import Conditions
from simulator.lab.replay import Replay

FIGURES: Final = (
    "ttft_p50_ms",
    "ttft_p90_ms",
    "ttft_p99_ms",
    "e2e_p99_ms",
    "goodput_rps",
    "hit_ratio",
    "imbalance",
)
"""Names of a run's figures, in the order of the report."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One policy at one load and seed. Times run from the arrival at the gateway.

    goodput_rps  requests a second of the offered span that meet both objectives
    hit_ratio    prompt tokens that a cache supplied, of all prompt tokens, 0 to 1
    imbalance    most uncached prefill tokens of a replica over the mean, at least 1
    good_ratio   requests that meet both objectives, of all, 0 to 1
    tpot_p90_ms  milliseconds a token after the first, over requests with more than one
    """

    policy: str
    load: float
    seed: int
    ttft_p50_ms: float
    ttft_p90_ms: float
    ttft_p99_ms: float
    e2e_p99_ms: float
    goodput_rps: float
    hit_ratio: float
    imbalance: float
    offered_rps: float
    good_ratio: float
    tpot_p90_ms: float
    preemptions: int
    requests: int

    def as_json(self) -> dict[str, Any]:
        """Plain values by name."""
        return asdict(self)


def measure(replay: Replay, conditions: Conditions, *, policy: str, load: float, seed: int) -> Run:
    """The figures of a replay that ran to its end."""
    calls = replay.calls
    ttft = sorted(_ttft(call) * 1000 for call in calls)
    span = calls[-1].arrived_at - calls[0].arrived_at
    good = sum(1 for call in calls if _is_good(call, conditions))
    uncached = [replica.uncached_tokens for replica in replay.fleet]
    return Run(
        policy=policy,
        load=load,
        seed=seed,
        ttft_p50_ms=percentile(ttft, 0.5),
        ttft_p90_ms=percentile(ttft, 0.9),
        ttft_p99_ms=percentile(ttft, 0.99),
        e2e_p99_ms=percentile(sorted(_e2e(call) * 1000 for call in calls), 0.99),
        goodput_rps=good / span if span else 0.0,
        hit_ratio=sum(call.cached_tokens for call in calls) / sum(call.prompt_tokens for call in calls),
        imbalance=max(uncached) * len(uncached) / max(1, sum(uncached)),
        offered_rps=len(calls) / span if span else 0.0,
        good_ratio=good / len(calls),
        tpot_p90_ms=percentile(sorted(_tpot(call) * 1000 for call in calls if call.output_tokens > 1), 0.9),
        preemptions=sum(call.preemptions for call in calls),
        requests=len(calls),
    )


def percentile(ascending: Sequence[float], part: float) -> float:
    """The nearest rank: the least value that `part` of all values do not exceed. 0 without any value."""
    return ascending[max(0, math.ceil(part * len(ascending)) - 1)] if ascending else 0.0


def _is_good(call: Call, conditions: Conditions) -> bool:
    return _ttft(call) * 1000 < conditions.slo_ttft_ms and _tpot(call) * 1000 < conditions.slo_tpot_ms


def _ttft(call: Call) -> float:
    assert call.first_token_at is not None
    return call.first_token_at - call.arrived_at


def _e2e(call: Call) -> float:
    assert call.finished_at is not None
    return call.finished_at - call.arrived_at


def _tpot(call: Call) -> float:
    return (_e2e(call) - _ttft(call)) / (call.output_tokens - 1) if call.output_tokens > 1 else 0.0
