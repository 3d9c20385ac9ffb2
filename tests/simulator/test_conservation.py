"""Whatever clients do, blocks are conserved, every sequence ends, and the same calls give the same events."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.engine import Engine, Event, FinishReason, Output, Request, Sequence
from tests.simulator.test_engine import drain, engine_of

PROMPTS = st.builds(
    lambda tokens, outputs, family: Request(
        tokens,
        tuple(Output(count, block_hashes=(family * 1000 + 900,)) for count in outputs),
        tuple(family * 1000 + block for block in range(tokens // 4)),
    ),
    st.integers(1, 24),
    st.lists(st.integers(0, 24), min_size=1, max_size=3),
    st.integers(1, 3),
)
# Submit a request, abort one of those submitted, or let time pass.
ACTIONS = st.lists(st.one_of(PROMPTS, st.integers(0, 50), st.floats(0.1, 9.0)), max_size=40)


def check_blocks(engine: Engine, sequences: list[Sequence]) -> None:
    """Blocks held, once each, and blocks free are all blocks."""
    shared = {block_hash for sequence in sequences for block_hash in sequence.refs}
    private = sum(sequence.private for sequence in sequences)
    assert engine.pool.total == engine.pool.free + len(shared) + private
    assert all(sequence.private >= 0 for sequence in sequences)
    assert 0 <= engine.pool.free <= engine.pool.total


def play(actions: list[Request | int | float], engine: Engine) -> tuple[list[Sequence], list[Event[Sequence]]]:
    sequences: list[Sequence] = []
    events: list[Event[Sequence]] = []
    for action in actions:
        if isinstance(action, Request):
            sequences += engine.submit(action, engine.now)
        elif isinstance(action, float):
            events += engine.advance(engine.now + action)
        elif sequences:
            engine.abort(sequences[action % len(sequences)], engine.now)
        check_blocks(engine, sequences)
    return sequences, events + drain(engine)


@given(ACTIONS)
@settings(deadline=None)
def test_blocks_are_conserved_and_all_free_at_the_end(actions: list[Request | int | float]) -> None:
    engine = engine_of(kv_blocks=14, max_model_len=52)
    sequences, _ = play(actions, engine)
    check_blocks(engine, sequences)
    assert (engine.pool.total, 0, 0) == (engine.pool.free, engine.running, engine.waiting)
    for sequence in sequences:
        assert sequence.finish_reason is not None
        if sequence.finish_reason is not FinishReason.ABORT:
            assert sequence.output.tokens == sequence.generated
    assert engine.counters.generation_tokens == sum(s.generated for s in sequences)


@given(ACTIONS)
@settings(deadline=None, max_examples=30)
def test_the_same_calls_give_the_same_events(actions: list[Request | int | float]) -> None:
    def told() -> list[tuple[int, float, int]]:
        sequences, events = play(actions, engine_of(kv_blocks=14, max_model_len=52))
        order = {sequence: index for index, sequence in enumerate(sequences)}
        return [(e.kind, e.at, order[e.subject]) for e in events]

    assert told() == told()


@given(ACTIONS, st.floats(0.1, 3.0))
@settings(deadline=None, max_examples=30)
def test_how_often_one_looks_changes_nothing(actions: list[Request | int | float], gap: float) -> None:
    def ends(look: bool) -> list[float | None]:
        engine = engine_of(kv_blocks=14, max_model_len=52)
        sequences = [s for a in actions if isinstance(a, Request) for s in engine.submit(a, 0.0)]
        while look and engine.next_event_time() is not None:
            engine.advance(engine.now + gap)
        drain(engine)
        return [s.finished_at for s in sequences]

    assert ends(look=False) == ends(look=True)
