"""A ledger says what an engine has before it, whatever the engine counts, and is never below zero."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.domain.pick.queued import BESIDE_STEP, HEAD_SHARE, Entry, Queued


def ledger(*tokens: float, rate: float = 1.0) -> tuple[Queued, list[Entry]]:
    """Dispatches of time 0, at a rate in tokens/ms."""
    queued = Queued(rate)
    entries = [Entry(0, each, 1, 10) for each in tokens]
    for entry in entries:
        queued.add(entry, 0)
    return queued, entries


def test_the_wait_is_what_was_sent_over_the_rate_and_runs_out() -> None:
    queued, _ = ledger(300, 100, rate=2)
    assert [queued.wait_ms(now) for now in (0, 150, 200, 900)] == [200, 50, 0, 0]


def test_what_the_engine_counts_is_gone_even_if_the_rate_said_otherwise() -> None:
    queued, _ = ledger(300, 100, 50, rate=0.001)
    assert queued.counted(2, 10, 10) == (400, 0)
    assert queued.tokens == 50
    assert len(queued) == 1


def test_a_prompt_that_is_not_counted_is_not_done_however_fast_the_rate() -> None:
    queued, _ = ledger(1000, 500, rate=100)
    assert queued.wait_ms(50) == 0
    queued.counted(0, 50, 50)
    assert queued.wait_ms(50) == pytest.approx((1000 * (1 - HEAD_SHARE) + 500) / 100)


def test_prompts_of_others_are_no_debt() -> None:
    queued, _ = ledger(100)
    assert queued.counted(5, 10, 10) == (100, 4)
    assert (queued.tokens, queued.kv_tokens, len(queued)) == (0, 0, 0)
    queued.add(Entry(20, 70, 1, 10), 20)
    assert queued.wait_ms(20) == 70


def test_what_waits_beyond_our_own_is_others_work() -> None:
    queued, _ = ledger(100)
    queued.bounded(waiting=4, running=1, settled_before_ms=5, sampled_at_ms=10, prompt_tokens=500, step_tokens=4096)
    assert queued.foreign == 3 * 500
    queued.bounded(waiting=0, running=1, settled_before_ms=5, sampled_at_ms=10, prompt_tokens=500, step_tokens=4096)
    assert queued.foreign == 0


def test_an_idle_engine_has_nothing_before_it_but_what_it_cannot_have_seen() -> None:
    queued, _ = ledger(100, 200)
    queued.add(Entry(8, 50, 1, 10), 8)
    queued.bounded(waiting=0, running=0, settled_before_ms=5, sampled_at_ms=10, prompt_tokens=500, step_tokens=4096)
    assert queued.tokens == 50


def test_what_never_arrived_does_not_stay_because_others_decode() -> None:
    queued, _ = ledger(*[3000] * 15)
    queued.bounded(waiting=1, running=90, settled_before_ms=5, sampled_at_ms=10, prompt_tokens=500, step_tokens=4096)
    assert len(queued) == 1 + 1 + BESIDE_STEP


def test_several_sequences_of_a_request_are_several_prompts() -> None:
    queued = Queued(1.0)
    queued.add(Entry(0, 100, 3, 10), 0)
    queued.add(Entry(0, 70, 1, 10), 0)
    queued.counted(2, 5, 5)
    assert (queued.tokens, len(queued)) == (70, 2)
    queued.counted(2, 9, 9)
    assert (queued.tokens, len(queued)) == (0, 0)


def test_one_that_ended_needs_nothing_and_does_not_hide_the_next() -> None:
    queued, (first, _) = ledger(1000, 100)
    queued.ended(first, 0)
    queued.ended(first, 0)
    assert (queued.tokens, queued.kv_tokens) == (100, 10)
    queued.bounded(waiting=2, running=2, settled_before_ms=5, sampled_at_ms=10, prompt_tokens=500, step_tokens=4096)
    assert len(queued) == 1
    queued.counted(1, 20, 20)
    assert (queued.tokens, len(queued)) == (0, 0)


def test_an_engine_that_began_anew_has_lost_what_was_sent_before() -> None:
    queued, _ = ledger(1000, 100)
    queued.add(Entry(50, 30, 1, 10), 50)
    queued.clear(40, 60)
    assert (queued.tokens, len(queued)) == (30, 1)
    assert queued.wait_ms(60) == 30


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(0, 5000), st.integers(1, 4)),
        st.tuples(st.just("end"), st.integers(0, 50), st.just(0)),
        st.tuples(st.just("count"), st.integers(0, 6), st.integers(0, 100)),
        st.tuples(st.just("bound"), st.integers(0, 6), st.integers(0, 6)),
        st.tuples(st.just("clear"), st.integers(0, 100), st.just(0)),
        st.tuples(st.just("drain"), st.integers(1, 50), st.just(0)),
        st.tuples(st.just("mirror"), st.integers(-3000, 3000), st.just(0)),
        st.tuples(st.just("work"), st.just(0), st.just(0)),
    ),
    max_size=60,
)


@given(STEPS, st.integers(0, 40))
def test_no_sum_ever_falls_below_zero_and_nothing_lost_stays(steps: list[tuple[str, int, int]], lag: int) -> None:
    queued, entries, now = Queued(1.0), list[Entry](), 0.0
    for act, one, other in steps:
        now += 7
        if act == "add":
            entries.append(Entry(now, one, other, one))
            queued.add(entries[-1], now)
        elif act == "end" and entries:
            queued.ended(entries[one % len(entries)], now)
        elif act == "count":
            queued.counted(one, now - lag, now)
        elif act == "bound":
            queued.bounded(
                one,
                other,
                settled_before_ms=now - 2 * lag,
                sampled_at_ms=now - lag,
                prompt_tokens=100.0,
                step_tokens=4096,
            )
        elif act == "clear":
            queued.clear(now - one, now)
        elif act == "drain":
            queued.drain(one / 10, now)
        elif act == "mirror":
            queued.mirror(one, now)
        else:
            queued.worked_off(now)
        assert min(queued.tokens, queued.foreign, queued.mirrored, queued.kv_tokens, queued.wait_ms(now)) >= 0
        alive = [e for e in entries if e.queued]
        assert len(queued) == len(alive)
        assert queued.tokens == pytest.approx(sum(e.tokens for e in alive), abs=1e-6)
        assert queued.kv_tokens == sum(e.kv_tokens for e in alive)
