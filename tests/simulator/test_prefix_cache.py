"""The prefix cache: what is reused, what is counted, what is evicted."""

from __future__ import annotations

from simulator.engine import Engine, EngineParams, Output, Request
from tests.simulator.test_engine import drain, engine_of


def run(engine: Engine, request: Request) -> int:
    """Cached tokens of one request, run alone."""
    [sequence] = engine.submit(request, engine.now)
    drain(engine)
    return sequence.cached_tokens


def test_a_shared_prefix_is_reused_and_counted_in_tokens() -> None:
    engine = engine_of()
    assert run(engine, Request(14, (Output(2),), (1, 2, 3))) == 0
    assert run(engine, Request(14, (Output(2),), (1, 2, 9))) == 8
    assert (engine.counters.prefix_queried_tokens, engine.counters.prefix_hit_tokens) == (28, 8)


def test_the_last_token_of_a_prompt_is_always_computed() -> None:
    engine = engine_of()
    run(engine, Request(8, (Output(1),), (1, 2)))
    assert run(engine, Request(8, (Output(1),), (1, 2))) == 4


def test_an_answer_is_cached_for_the_next_turn() -> None:
    engine = engine_of()
    run(engine, Request(6, (Output(7, block_hashes=(2, 3)),), (1,)))
    assert run(engine, Request(14, (Output(1),), (1, 2, 3))) == 12


def test_sequences_of_one_prompt_share_what_is_computed() -> None:
    engine = engine_of(max_num_batched_tokens=8)
    sequences = engine.submit(Request(8, (Output(1),) * 3, (1, 2)), 0.0)
    drain(engine)
    assert [s.cached_tokens for s in sequences] == [0, 4, 4]


def test_idle_cached_blocks_count_as_free_and_the_oldest_go_first() -> None:
    engine = engine_of(kv_blocks=17)  # 16 blocks of 4
    run(engine, Request(32, (Output(1),), tuple(range(8))))
    run(engine, Request(32, (Output(1),), tuple(range(100, 108))))
    assert (engine.kv_used_ratio, engine.pool.cached) == (0.0, 16)
    run(engine, Request(12, (Output(1),)))
    assert engine.pool.cached == 13
    assert run(engine, Request(32, (Output(1),), tuple(range(100, 108)))) == 28
    assert run(engine, Request(32, (Output(1),), tuple(range(8)))) == 20  # its tail was evicted, not its head


def test_nothing_is_reused_without_prefix_caching() -> None:
    engine = Engine(EngineParams(prefix_caching=False))
    run(engine, Request(64, (Output(1),), (1, 2, 3, 4)))
    assert run(engine, Request(64, (Output(1),), (1, 2, 3, 4))) == 0
