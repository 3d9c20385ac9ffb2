"""What a fleet can do at most: measured, since no formula knows a trace's hits and a fleet's batches."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from simulator.engine import EngineParams
from simulator.lab.arrivals import arrivals
from simulator.lab.conditions import Conditions
from simulator.lab.policies import POLICIES
from simulator.lab.replay import Replay
from simulator.lab.trace import Trace

SPREADS: Final = ("cache_aware", "least_request")
"""Those whose better throughput counts: prefixes and load are what it takes, and neither depends on `pick`."""
OVERLOAD: Final = 2.0


def capacity_rps(trace: Trace, conditions: Conditions) -> float:
    """Requests a second that the fleet works off when more always wait: the best of SPREADS.

    Offered is twice what the step costs allow without any cache hit. Counted are the ends between the first tenth
    and the last, so that neither filling the fleet nor emptying it counts. The fleet is sound: no slow replica. All
    of the trace counts, since a part of it may be far from its mean.
    """
    sound = replace(conditions, pickers=1, slow_replica=1.0, rate_error=0.0)
    rate = OVERLOAD * bound_rps(trace, conditions.engine) * conditions.replicas
    return max(_worked_off(trace, sound, rate, spread) for spread in SPREADS)


def _worked_off(trace: Trace, conditions: Conditions, rate: float, policy: str) -> float:
    replay = Replay(arrivals(trace, 0, rate), conditions, POLICIES[policy], 0)
    replay.run()
    ends = sorted(call.finished_at for call in replay.calls if call.finished_at is not None)
    first, last = len(ends) // 10, len(ends) - 1 - len(ends) // 10
    return (last - first) / max(1e-9, ends[last] - ends[first])


def bound_rps(trace: Trace, engine: EngineParams) -> float:
    """Requests a second of one replica by its step costs, with no hit: prefill + a share of each decode step.

    prompt ÷ rate + output · (t_seq + mean context · t_ctx) + base · steps, in the fullest steps that there are.
    """
    cost, count = engine.cost, len(trace.requests)
    prompt = sum(r.prompt_tokens for r in trace.requests) / count
    output = sum(r.output_tokens for r in trace.requests) / count
    held = sum(r.output_tokens * (r.prompt_tokens + r.output_tokens / 2) for r in trace.requests) / count
    steps = max(prompt / engine.max_num_batched_tokens, output / engine.max_num_seqs)
    decode = output * cost.seconds_per_sequence + held * cost.seconds_per_context_token
    return engine.speed / (prompt / cost.prefill_tokens_per_second + decode + steps * cost.base_seconds)
