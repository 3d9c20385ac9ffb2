"""The engine in simulated time: steps, queue, budget, preemption."""

from __future__ import annotations

import random

import pytest

from simulator.engine import (
    Engine,
    EngineParams,
    Event,
    EventKind,
    FinishReason,
    Output,
    OutputLengths,
    Request,
    Sequence,
    StepCost,
)

SECOND = StepCost(1.0, float("inf"), 0.0, 0.0)  # every step takes a second


def engine_of(**params: object) -> Engine:
    defaults = {"kv_blocks": 101, "block_size": 4, "max_num_seqs": 4, "max_num_batched_tokens": 16}
    return Engine(EngineParams(**{**defaults, "max_model_len": 64, "cost": SECOND, **params}))


def drain(engine: Engine) -> list[Event[Sequence]]:
    """Run to the end."""
    events = []
    while (upcoming := engine.next_event_time()) is not None:
        events += engine.advance(upcoming)
    return events


def test_one_request_gets_a_token_a_step() -> None:
    engine = engine_of()
    [sequence] = engine.submit(Request(10, (Output(3),)), 0.0)
    events = engine.advance(10.0)
    assert [(e.kind, e.at) for e in events] == [(EventKind.FIRST_TOKEN, 1.0), (EventKind.FINISHED, 3.0)]
    assert (sequence.scheduled_at, sequence.first_token_at, sequence.finished_at) == (0.0, 1.0, 3.0)
    assert engine.next_event_time() is None


def test_generated_grows_between_events() -> None:
    engine = engine_of()
    [sequence] = engine.submit(Request(10, (Output(9),)), 0.0)
    seen = []
    for second in range(6):
        engine.advance(float(second))
        seen.append(engine.generated(sequence))
    assert seen == [0, 1, 2, 3, 4, 5]


def test_an_embedding_ends_with_its_prefill_and_generates_nothing() -> None:
    engine = engine_of()
    [sequence] = engine.submit(Request(10, (Output(0),)), 0.0)
    [event] = drain(engine)
    assert (event.kind, sequence.generated) == (EventKind.FINISHED, 0)
    assert (engine.counters.prompt_tokens, engine.counters.generation_tokens) == (10, 0)


def test_a_long_prompt_is_prefilled_in_chunks_of_the_budget() -> None:
    engine = engine_of()
    [sequence] = engine.submit(Request(40, (Output(1),)), 0.0)
    drain(engine)
    assert sequence.first_token_at == 3.0


def test_decoding_goes_before_prefill_in_the_budget() -> None:
    engine = engine_of()
    engine.submit(Request(1, (Output(20),) * 3), 0.0)
    engine.advance(1.0)
    [sequence] = engine.submit(Request(26, (Output(1),)), 1.0)  # joins the step from 2 to 3; 13 tokens fit a step
    drain(engine)
    assert sequence.first_token_at == 4.0


def test_no_more_than_max_num_seqs_run() -> None:
    engine = engine_of(max_num_seqs=2)
    sequences = engine.submit(Request(1, (Output(2),) * 5), 0.0)
    engine.advance(0.5)
    assert (engine.running, engine.waiting) == (2, 3)
    drain(engine)
    assert [s.finished_at for s in sequences] == [2.0, 2.0, 4.0, 4.0, 6.0]


def test_step_time_grows_with_prefill_sequences_and_context() -> None:
    cost = StepCost()
    assert pytest.approx(0.012 + 1.0 + 256 * 60e-6 + 1e6 * 22e-9) == cost.seconds(14_000, 256, 1_000_000)


def test_a_block_is_taken_for_the_step_that_needs_it() -> None:
    engine = engine_of()
    engine.submit(Request(8, (Output(20),)), 0.0)
    held = []
    for second in range(6):  # the step that begins at second 1 computes the ninth token
        engine.advance(float(second))
        held.append(100 - engine.pool.free)
    assert held == [2, 3, 3, 3, 3, 4]


def test_context_is_paid_for_while_it_is_held() -> None:
    engine = engine_of(cost=StepCost(1.0, float("inf"), 0.0, 0.1))
    seconds = []
    for _ in range(2):
        begun = engine.now
        engine.submit(Request(10, (Output(3),)), begun)
        seconds.append(drain(engine)[-1].at - begun)
    assert seconds == [pytest.approx(1.0 + 2.0 + 2.1)] * 2


def test_half_the_speed_takes_twice_the_time() -> None:
    ends = []
    for speed in (1.0, 0.5):
        engine = engine_of(speed=speed)
        engine.submit(Request(10, (Output(5),)), 0.0)
        ends.append(drain(engine)[-1].at)
    assert ends == [5.0, 10.0]


def test_blocks_running_out_preempt_the_last_admitted_which_is_recomputed() -> None:
    engine = engine_of(kv_blocks=11, max_model_len=40)
    first, last = engine.submit(Request(8, (Output(20), Output(20))), 0.0)
    events = drain(engine)
    assert [last] == [e.subject for e in events if e.kind is EventKind.PREEMPTED]
    assert (first.preemptions, last.preemptions, engine.counters.preemptions) == (0, 1, 1)
    assert (first.generated, last.generated) == (20, 20)
    assert first.finished_at is not None
    assert last.finished_at is not None
    assert first.finished_at < last.finished_at
    assert engine.pool.free == 10


def test_aborting_frees_blocks_at_once_in_every_state() -> None:
    engine = engine_of(max_num_seqs=2)
    decoding, prefilling, waiting = (engine.submit(Request(tokens, (Output(9),)), 0.0)[0] for tokens in (4, 40, 4))
    engine.advance(1.0)
    for sequence in (waiting, prefilling, decoding):
        engine.abort(sequence, 1.5)
        engine.abort(sequence, 1.6)  # a second time changes nothing
    assert (engine.running, engine.waiting, engine.pool.free) == (0, 0, 100)
    assert {FinishReason.ABORT} == {s.finish_reason for s in (waiting, prefilling, decoding)}
    assert decoding.finished_at == 1.5
    assert drain(engine) == []


@pytest.mark.parametrize(
    "request_",
    [Request(60, (Output(5),)), Request(0), Request(7, (Output(1),), (1, 2))],
    ids=["too long", "empty", "more hashes than blocks"],
)
def test_impossible_requests_are_refused(request_: Request) -> None:
    with pytest.raises(ValueError):
        engine_of().submit(request_, 0.0)


def test_submitting_past_an_unprocessed_step_is_refused() -> None:
    engine = engine_of()
    engine.submit(Request(1, (Output(5),)), 0.0)
    with pytest.raises(ValueError, match="advance"):
        engine.submit(Request(1), 2.0)


@pytest.mark.parametrize(
    "params",
    [{"max_num_seqs": 17}, {"kv_blocks": 16}, {"speed": 0.0}],
    ids=["budget below sequences", "cache below context", "no speed"],
)
def test_engines_that_could_not_run_are_refused(params: dict[str, object]) -> None:
    with pytest.raises(ValueError):
        engine_of(**params)


def test_lengths_are_those_of_their_seed_with_the_median_asked_for() -> None:
    def draw(seed: int) -> list[int]:
        lengths = OutputLengths(random.Random(seed))
        return [lengths.draw() for _ in range(2001)]

    assert draw(1) == draw(1) != draw(2)
    assert 140 <= sorted(draw(1))[1000] <= 160
