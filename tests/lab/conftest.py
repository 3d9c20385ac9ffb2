"""Small traces, and replays of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from simulator.engine import EngineParams, StepCost
from simulator.lab.arrivals import arrivals
from simulator.lab.conditions import Conditions
from simulator.lab.policies import POLICIES
from simulator.lab.replay import Replay
from simulator.lab.synthetic import generate
from simulator.lab.trace import Trace

ReplayOf = Callable[..., Replay]


@pytest.fixture(scope="session")
def conversation() -> Trace:
    """160 requests whose prefixes repeat."""
    return generate("conversation", 160)


@pytest.fixture
def replay_of(conversation: Trace) -> ReplayOf:
    """Runs a policy over the trace to the end of its last call."""

    def run(policy: str, rate: float = 6.0, seed: int = 1, **conditions: Any) -> Replay:
        replay = Replay(arrivals(conversation, seed, rate), Conditions(**conditions), POLICIES[policy], seed)
        replay.run()
        return replay

    return run


def small_engine(**changes: Any) -> EngineParams:
    """An engine with a small cache."""
    defaults = {"kv_blocks": 257, "block_size": 512, "max_num_batched_tokens": 4096, "max_model_len": 131_072}
    return EngineParams(**{**defaults, "cost": StepCost(), **changes})
