"""Steps taken at once give what steps taken one by one give."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.engine import Engine, EngineParams, Event, Request, Sequence, StepCost
from simulator.engine.quiet import QuietRun
from tests.simulator.test_conservation import ACTIONS
from tests.simulator.test_engine import engine_of

COST = StepCost(0.7, 11.0, 0.13, 0.0017)


class Plain(Engine):
    """Takes every step by itself."""

    def _quiet_steps(self) -> int:
        return 0


def play(engine: Engine, actions: list[Request | int | float]) -> tuple[list[Sequence], list[Event[Sequence]]]:
    """As a caller does who looks only when something may have changed."""
    sequences: list[Sequence] = []
    events: list[Event[Sequence]] = []
    for action in actions:
        if isinstance(action, Request):
            sequences += engine.submit(action, engine.now)
        elif isinstance(action, float):
            events += engine.advance(engine.now + action)
        elif sequences:
            engine.abort(sequences[action % len(sequences)], engine.now)
    while (change := engine.next_change_time()) is not None:
        events += engine.advance(change)
    return sequences, events


def told(sequences: list[Sequence], events: list[Event[Sequence]]) -> list[tuple[int, int]]:
    order = {sequence: index for index, sequence in enumerate(sequences)}
    return [(event.kind, order[event.subject]) for event in events]


def engines(block_size: int) -> tuple[Engine, Engine]:
    wanted = engine_of(kv_blocks=1 + 52 // block_size, block_size=block_size, max_model_len=48, cost=COST)
    return wanted, Plain(wanted.params)


@given(ACTIONS, st.sampled_from([4, 13, 26]))
@settings(deadline=None)
def test_steps_taken_at_once_end_when_single_ones_do(actions: list[Request | int | float], block_size: int) -> None:
    actions = [
        Request(a.prompt_tokens, a.outputs, a.block_hashes[: a.prompt_tokens // block_size])
        if isinstance(a, Request)
        else a
        for a in actions
    ]
    quick, plain = engines(block_size)
    (fast, fast_events), (slow, slow_events) = play(quick, actions), play(plain, actions)
    assert told(slow, slow_events) == told(fast, fast_events)
    assert [event.at for event in slow_events] == pytest.approx([event.at for event in fast_events])
    assert [s.generated for s in slow] == [s.generated for s in fast]
    a, b = plain.counters, quick.counters
    assert (a.steps, a.generation_tokens, a.step_tokens.counts) == (b.steps, b.generation_tokens, b.step_tokens.counts)
    assert sum(a.inter_token_seconds.counts) == sum(b.inter_token_seconds.counts)
    assert (a.busy_seconds, a.inter_token_seconds.sum) == (
        pytest.approx(b.busy_seconds),
        pytest.approx(b.inter_token_seconds.sum),
    )


def test_a_long_answer_takes_few_looks() -> None:
    engine = Engine(EngineParams(kv_blocks=100, block_size=512, max_num_seqs=4))
    engine.submit(Request(100, (Request(1).outputs[0]._replace(tokens=5000),)), 0.0)
    looks = 0
    while (change := engine.next_change_time()) is not None:
        engine.advance(change)
        looks += 1
    assert looks < 50
    assert engine.counters.steps == 5000


@given(st.floats(1e-3, 10), st.floats(0, 1), st.integers(0, 10_000), st.floats(0, 1e5))
def test_steps_within_is_the_most_that_fit(first: float, growth: float, most: int, seconds: float) -> None:
    run = QuietRun(first, growth)
    steps = run.steps_within(seconds, most)
    assert 0 <= steps <= most
    assert steps == 0 or run.seconds(steps) <= seconds
    assert steps == most or run.seconds(steps + 1) > seconds


def test_a_histogram_of_rising_values_is_that_of_the_values() -> None:
    at_once, one_by_one = (engine_of().counters.inter_token_seconds for _ in range(2))
    at_once.observe_rising(0.004, 0.0031, 400, 3)
    for step in range(400):
        one_by_one.observe(0.004 + step * 0.0031, 3)
    assert one_by_one.counts == at_once.counts
    assert one_by_one.sum == pytest.approx(at_once.sum)
