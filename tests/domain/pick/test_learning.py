"""What the picker learns: speeds, stays and hits, from what engines count, and nothing from noise."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.domain.pick.parts import NOW, Fleet, address, sample
from tidegate.domain.pick.hits import LEAST_PART, Hits
from tidegate.domain.pick.settings import DEFAULT
from tidegate.domain.pick.speed import LEAST_SPEED, MOST_SPEED, Speed, model_rate
from tidegate.domain.pick.stay import Stay
from tidegate.domain.pick.work import Work

STEP_TOKENS = DEFAULT.step_tokens


def busy(speed: Speed, times: float, seconds: int) -> None:
    """An engine `times` as fast as the model says, with a full queue: 10 prompts a second are counted."""
    rate = model_rate(DEFAULT, 0, 0.0)
    for _ in range(10 * seconds):
        speed.busy(rate * times * 100, 100, rate, STEP_TOKENS)


@pytest.mark.parametrize("times", [0.5, 0.77, 1.0, 1.3, 2.0])
def test_a_busy_engine_teaches_its_speed(times: float) -> None:
    speed = Speed()
    busy(speed, times, 60)
    assert speed.factor == pytest.approx(times, rel=0.05)


def test_an_engine_that_is_not_always_busy_teaches_nothing() -> None:
    speed = Speed()
    for _ in range(100):
        speed.busy(10_000, 100, 1.0, STEP_TOKENS)
        speed.idle()
    assert (speed.factor, speed.windows) == (1.0, 0)


@given(st.lists(st.tuples(st.floats(0, 1e7), st.floats(1, 1e5)), max_size=100))
def test_no_counter_makes_a_speed_absurd(windows: list[tuple[float, float]]) -> None:
    speed = Speed()
    for tokens, took in windows:
        speed.busy(tokens, took, 10.0, STEP_TOKENS)
        assert LEAST_SPEED <= speed.factor <= MOST_SPEED


def test_replicas_are_alike_until_one_clearly_differs() -> None:
    speed = Speed()
    speed.factor, speed.fleet = 1.2, 1.0
    assert speed.relative == 1.0
    speed.factor = 0.5
    assert speed.relative == 0.5


def test_a_replica_half_as_fast_gets_less_of_the_work() -> None:
    fleet = Fleet(2)
    done = [0.0, 0.0]
    counts = [0, 0]
    queues: list[list[float]] = [[], []]
    for tick in range(400):
        fleet.now = NOW + 100 * tick
        for number, speed in enumerate((0.5, 1.0)):
            done[number] += 1_300 * speed if queues[number] else 0.0
            while queues[number] and done[number] >= queues[number][0]:
                done[number] -= queues[number].pop(0)
                counts[number] += 1
            running = min(1, len(queues[number]))
            waiting = len(queues[number]) - running
            fleet.see(number, running=running, waiting=waiting, prompts_total=counts[number], kv_used_ratio=tick / 1e4)
        if tick % 2:
            for _ in range(4):
                first, _ = fleet.send(Work(prompt_tokens=1_000))
                queues[0 if first == address(0) else 1].append(1_000)
    assert counts[1] / counts[0] == pytest.approx(2.0, rel=0.15)
    assert max(map(len, queues)) < 40


def test_the_mean_stay_is_running_over_ends_a_second() -> None:
    stay = Stay()
    last = sample(at_ms=NOW, running=20, requests_finished_total=0)
    assert stay.mean_ms is None
    for second in range(1, 60):
        new = sample(at_ms=NOW + 1000 * second, running=20, requests_finished_total=4 * second)
        stay.sampled(last, new)
        last = new
    assert stay.mean_ms == pytest.approx(5000, rel=0.01)


def test_a_stay_that_only_the_caller_tells_counts_where_engines_tell_none() -> None:
    stay = Stay()
    stay.sampled(sample(), sample(at_ms=NOW + 1000))
    for _ in range(10):
        stay.ended(3000)
    assert stay.mean_ms == pytest.approx(3000)


def test_fewer_hits_than_expected_shrink_what_the_index_holds_and_as_many_restore_it() -> None:
    hits = Hits()
    for second in range(100):
        hits.sent(500, 1000, NOW + 1000 * second)
        hits.sent(50_000, 100_000, NOW + 1000 * second)
        hits.looked(0.1, NOW + 1000 * second)
    shrunk = hits.part
    assert LEAST_PART <= shrunk < 0.3
    for second in range(100, 250):
        hits.sent(50_000, 100_000, NOW + 1000 * second)
        hits.looked(0.5, NOW + 1000 * second)
    assert hits.part > 2 * shrunk


def test_hits_that_are_unknown_or_rarely_asked_for_change_nothing() -> None:
    hits = Hits()
    hits.sent(900, 1000, NOW)
    hits.looked(0.0, NOW)
    hits.sent(900_000, 1_000_000, NOW)
    hits.looked(None, NOW)
    assert hits.part == 1.0


def test_an_engine_that_caches_nothing_is_found_out() -> None:
    fleet = Fleet(1)
    marks, ends = tuple(range(1, 41)), tuple(range(2000, 82_000, 2000))
    work = Work(prompt_tokens=80_100, marks=marks, ends=ends)
    for second in range(600):
        fleet.now = NOW + 1000 * second
        fleet.see(0, prefix_hit_ratio=0.0, prompts_total=second, prompt_tokens_total=second)
        fleet.send(work)
    assert fleet.picker._replicas[address(0)].hits.part < 0.2
