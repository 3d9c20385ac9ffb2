"""What load 1 stands for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from simulator.lab.arrivals import arrivals
from simulator.lab.capacity import bound_rps, capacity_rps
from simulator.lab.conditions import Conditions
from simulator.lab.policies import POLICIES
from simulator.lab.replay import Replay
from simulator.lab.synthetic import generate


def test_the_bound_is_the_arithmetic_of_the_step_costs() -> None:
    trace, engine = generate("chat", 50), Conditions().engine
    twice = replace(engine, speed=2.0)
    assert bound_rps(trace, twice) == pytest.approx(2 * bound_rps(trace, engine))
    prompt = sum(r.prompt_tokens for r in trace.requests) / 50
    assert bound_rps(trace, engine) < engine.cost.prefill_tokens_per_second / prompt


def test_below_capacity_queues_end_and_above_they_grow() -> None:
    trace, conditions = generate("chat", 1500), Conditions(replicas=2)
    most = capacity_rps(trace, conditions)

    def waited(load: float) -> float:
        replay = Replay(arrivals(trace, 0, load * most), conditions, POLICIES["least_request"], 0)
        replay.run()
        late = replay.calls[-300:]
        return sum(c.first_token_at - c.arrived_at for c in late) / len(late)

    assert waited(0.7) < 1.0
    assert waited(1.5) > 5 * waited(0.7)
