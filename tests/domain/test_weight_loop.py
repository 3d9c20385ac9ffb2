"""The weight rule in closed loops: with simulated engines, and with a fluid plant whose answers come late."""

from __future__ import annotations

from collections import deque

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from bench.weights.fleet import Fleet
from bench.weights.loop import Constant, Run, Slowdown, Tidegate, run
from tidegate.domain.sample import EndpointSample, Status

SPEEDS = (1.0, 1.0, 1.36, 1.36)
"""Two FP16 and two INT4 replicas. The rule is told nothing of it: all count as FP16 until they are measured."""
LOAD = 0.8
SLOW_AT = 130.0


def ideal(speeds):
    return [speed / sum(speeds) for speed in speeds]


@pytest.fixture(scope="module")
def steered() -> Run:
    return run(Fleet(SPEEDS, load=LOAD, seed=2), Tidegate(), seconds=190, slowdowns=[Slowdown(SLOW_AT)])


def test_unequal_replicas_settle_within_a_minute_at_what_they_deliver(steered):
    settled = steered.between(60, SLOW_AT)
    for index, share in enumerate(ideal(SPEEDS)):
        mean = sum(shares[index] for shares in settled) / len(settled)
        assert mean == pytest.approx(share, rel=0.05)


def test_settled_shares_swing_by_less_than_five_percent(steered):
    for shares in zip(*steered.between(60, SLOW_AT), strict=True):
        mean = sum(shares) / len(shares)
        assert 0.95 * mean < min(shares) <= max(shares) < 1.05 * mean


def test_replica_at_half_its_speed_gets_no_more_than_it_can_serve_within_fifteen_seconds(steered):
    bearable = 0.5 * SPEEDS[0] / (LOAD * sum(SPEEDS))
    relieved = [at for at, shares in steered.shares if at > SLOW_AT and shares[0] <= bearable]
    assert relieved[0] <= SLOW_AT + 15


def test_round_robin_answers_twice_as_late_when_one_replica_slows_down(steered):
    equal = Constant({replica.address: 1.0 for replica in Fleet(SPEEDS, load=LOAD, seed=2).replicas})
    robin = run(Fleet(SPEEDS, load=LOAD, seed=2), equal, seconds=190, slowdowns=[Slowdown(SLOW_AT)])
    assert robin.p99(SLOW_AT) > 2 * steered.p99(SLOW_AT)
    assert robin.p99(SLOW_AT, first_token=True) > 2 * steered.p99(SLOW_AT, first_token=True)


# --- a fluid plant ------------------------------------------------------------------------------------------

TICK_SECONDS = 0.25
LAG_SECONDS = 4.0
WINDOW_TICKS = 240


class Plant:
    """Replicas as one number each: KV use follows utilisation with a lag, and the p99 is the worst of a minute."""

    def __init__(self, speeds, load):
        self.speeds, self.load = list(speeds), load
        self.total = sum(speeds)
        self.kv = [0.0] * len(speeds)
        self.worst = [deque(maxlen=WINDOW_TICKS) for _ in speeds]
        self.generated = [0.0] * len(speeds)

    def step(self, at, shares):
        """One tick under these shares; the samples that it shows."""
        samples = []
        for index, share in enumerate(shares):
            use = min(1.0, share * self.load * self.total / self.speeds[index])
            self.kv[index] += (use - self.kv[index]) * TICK_SECONDS / LAG_SECONDS
            self.worst[index].append(3_000.0 / self.speeds[index] / max(0.05, 1.0 - self.kv[index]))
            running = 1.0 + 60.0 * self.kv[index]
            self.generated[index] += running * 40.0 * self.speeds[index] * (1.0 - 0.5 * self.kv[index]) * TICK_SECONDS
            samples.append(self._sample(index, at, round(running)))
        return samples

    def _sample(self, index, at, running):
        return EndpointSample(
            cluster="c", address=f"a:{index + 1}", node="n", sampled_at_ms=round(at * 1000), seq=1,
            status=Status.READY, running=running, waiting=0, kv_used_ratio=self.kv[index],
            latency_p99_ms=max(self.worst[index]), generation_tokens_total=round(self.generated[index]),
        )  # fmt: skip


def respond(speeds, load, *, delay_seconds, seconds=300.0, slow=None):
    """Shares by tick; from the middle on, the first replica runs at `slow` times its speed."""
    plant, rule = Plant(speeds, load), Tidegate()
    shares = [1 / len(speeds)] * len(speeds)
    late, told = deque(), []
    for tick in range(1, round(seconds / TICK_SECONDS) + 1):
        at = tick * TICK_SECONDS
        if slow is not None and at == seconds / 2:
            plant.speeds[0] *= slow
        late.append(plant.step(at, shares))
        if len(late) > delay_seconds / TICK_SECONDS:
            weights = rule.tick(at, late.popleft())
            shares = [weight / sum(weights.values()) for weight in weights.values()]
        told.append(shares)
    return told


loops = given(
    st.lists(st.floats(0.5, 2.0), min_size=2, max_size=4), st.floats(0.3, 0.8), st.sampled_from([0.0, 0.5, 1.0])
)

the_same_each_time = settings(max_examples=8, deadline=None, derandomize=True, phases=[Phase.explicit, Phase.generate])
"""A run takes a third of a second: few, the same ones each time, and a failing one is reported as it was found."""


@the_same_each_time
@loops
def test_loop_comes_to_rest(speeds, load, delay):
    last = respond(speeds, load, delay_seconds=delay)[-240:]
    for shares in zip(*last, strict=True):
        assert max(shares) - min(shares) <= 0.05 * max(shares)


@the_same_each_time
@loops
def test_step_is_damped_it_goes_too_far_once_each_way_and_comes_to_rest(speeds, load, delay):
    bearable = 0.85 * (1 - 0.5 * speeds[0] / sum(speeds))  # what is left is not overloaded: there no share is right
    told = [shares[0] for shares in respond(speeds, min(load, bearable), delay_seconds=delay, slow=0.5)]
    before, after = told[: len(told) // 2], told[len(told) // 2 :]
    final = sum(after[-40:]) / 40
    assert final < before[-1]
    assert min(after) >= 0.4 * final
    assert max(after[after.index(min(after)) :]) <= 1.6 * final
    assert max(after[-240:]) - min(after[-240:]) <= 0.1 * final
