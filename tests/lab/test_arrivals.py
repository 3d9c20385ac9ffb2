"""A trace as the calls of one seed."""

from __future__ import annotations

import pytest

from simulator.lab.arrivals import PROMPT_ERROR, arrivals
from simulator.lab.trace import Trace, TraceRequest, trace_of


def ticking(count: int = 40, gap: float = 2.0) -> Trace:
    return trace_of("ticking", [TraceRequest(n * gap, 1000 + n, 10 + n, (n,)) for n in range(count)])


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_every_request_comes_once_at_the_rate_asked_for(seed: int) -> None:
    calls = arrivals(ticking(), seed, 5.0)
    assert sorted(c.prompt_tokens for c in calls) == [1000 + n for n in range(40)]
    assert [c.arrived_at for c in calls] == pytest.approx([n / 5.0 for n in range(40)])


def test_seed_0_begins_where_the_trace_does_and_others_elsewhere() -> None:
    starts = [arrivals(ticking(), seed, 5.0)[0].prompt_tokens for seed in range(6)]
    assert starts[0] == 1000
    assert len(set(starts)) > 2


def test_the_order_goes_around() -> None:
    prompts = [c.prompt_tokens for c in arrivals(ticking(), 3, 5.0)]
    first = prompts.index(1000)
    assert [*prompts[first:], *prompts[:first]] == [1000 + n for n in range(40)]


def test_a_limit_keeps_the_rate() -> None:
    calls = arrivals(ticking(), 1, 5.0, limit=11)
    assert len(calls) == 11
    assert calls[-1].arrived_at == pytest.approx(2.0)


def test_bursts_stay_bursts_when_stamps_are_kept() -> None:
    trace = trace_of("bursts", [TraceRequest(3.0 * (n // 5), 100, 10) for n in range(50)])
    kept = arrivals(trace, 0, 10.0, jitter=0.0)
    assert len({c.arrived_at for c in kept}) == 10
    spread = arrivals(trace, 0, 10.0)
    assert len({c.arrived_at for c in spread}) == 50
    assert [c.arrived_at for c in spread] == sorted(c.arrived_at for c in spread)


def test_the_estimate_of_a_prompt_is_off_by_its_bound_at_most() -> None:
    errors = [c.prompt_error for c in arrivals(ticking(400), 0, 5.0)]
    assert 1 - PROMPT_ERROR <= min(errors) < 1 < max(errors) <= 1 + PROMPT_ERROR


def test_an_estimate_scales_ends_and_prompt_alike() -> None:
    [call, _] = arrivals(trace_of("t", [TraceRequest(0, 1100, 9, (7, 8, 9)), TraceRequest(1, 1, 1)]), 0, 1.0)
    call.prompt_error = 1.1
    work = call.estimate(150, 512)
    assert (work.prompt_tokens, work.output_tokens, work.marks) == (1210, 150, (7, 8, 9))
    assert work.ends == (563, 1126, 1210)
