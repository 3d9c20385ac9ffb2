"""The rule: what is worse, what is not, how soon that is seen, and how often chance alone looks like it."""

from __future__ import annotations

import random

import pytest

from tests.rollout.figures import SAME, Times, drawn, figures, lognormal
from tidegate.domain.outcomes.version import Figures
from tidegate.domain.rollout.plan import Limits
from tidegate.domain.rollout.rule import ALARMS, Verdict, judge, judged, level

LIMITS = Limits(max_error_ratio=0.01, max_p95_ratio=1.5, min_requests=50, max_silence_ms=120_000)
SHARE = ALARMS / 5 / 2
TOO_FEW, GOOD, DOUBTFUL, WORSE = Verdict.TOO_FEW, Verdict.GOOD, Verdict.DOUBTFUL, Verdict.WORSE


def verdict(canary: Figures, stable: Figures | None, limits: Limits = LIMITS) -> Verdict:
    return judge(canary, stable, limits, SHARE).verdict


def test_twelve_requests_decide_nothing_however_bad_they_are() -> None:
    found = judge(figures(12, faults=12), figures(1000), LIMITS, SHARE)
    assert (found.verdict, found.why) == (TOO_FEW, "the canary had 12 of the 50 requests that it takes")


def test_an_idle_stable_decides_nothing() -> None:
    assert verdict(figures(1000, faults=900), figures(20)) is TOO_FEW


def test_a_fifth_of_faults_is_worse_as_soon_as_there_are_enough_requests() -> None:
    found = judge(figures(50, faults=10), figures(950), LIMITS, SHARE)
    assert found.verdict is WORSE
    assert found.why == "20.00% (10 of 50) of the canary's requests were faults, 0.00% (0 of 950) of stable's"


def test_twice_as_slow_is_worse() -> None:
    assert verdict(figures(50, ms=200), figures(950, ms=100)) is WORSE
    assert verdict(figures(50, ms=150), figures(950, ms=100)) is GOOD


@pytest.mark.parametrize("others", [{"client_error": 5000}, {"back_pressure": 5000}, {"left": 5000}, {"refused": 5000}])
def test_what_is_nobodys_fault_neither_harms_nor_hides(others: dict[str, int]) -> None:
    assert verdict(figures(100, **others), figures(950)) is GOOD
    assert verdict(figures(100, faults=20, **others), figures(950)) is WORSE
    assert verdict(figures(12, faults=12, **others), figures(950)) is TOO_FEW


def test_a_canary_no_worse_than_a_bad_stable_stays() -> None:
    assert verdict(figures(500, faults=100), figures(9500, faults=1900)) is GOOD


def test_a_canary_worse_than_stable_but_within_the_limit_stays() -> None:
    limits = Limits(max_error_ratio=0.05, max_p95_ratio=1.5, min_requests=50, max_silence_ms=120_000)
    assert verdict(figures(1000, faults=30), figures(19_000, faults=19), limits) is GOOD


def test_a_few_faults_too_many_are_a_doubt() -> None:
    assert verdict(figures(60, faults=3), figures(950)) is DOUBTFUL


def test_without_a_stable_the_limit_of_faults_counts_alone() -> None:
    assert verdict(figures(100, faults=20), None) is WORSE
    assert verdict(figures(100, ms=9000), None) is GOOD


def test_a_canary_that_serves_nothing_at_all_is_judged_by_its_faults() -> None:
    assert verdict(figures(60, faults=60), figures(950)) is WORSE
    assert verdict(figures(60, faults=60), figures(950, faults=950)) is GOOD


def test_levels_of_all_looks_sum_to_their_share() -> None:
    total = sum(level(SHARE, number, 50) for number in range(50, 200_000))
    assert 0.999 * SHARE < total <= SHARE


# --- many rollouts ------------------------------------------------------------------------------------------


def looks(seed: int, *, faults: float = 0.0, stable_faults: float = 0.0, times: Times, most: int) -> dict[int, Verdict]:
    """By judged requests of a canary at 10 %, what each look finds, until it is found worse."""
    rng, canary, stable, found = random.Random(seed), Figures(), Figures(), dict[int, Verdict]()
    while judged(canary) < most and WORSE not in found.values():
        canary = canary.plus(drawn(rng, 5, faults, times))
        stable = stable.plus(drawn(rng, 45, stable_faults))
        found[judged(canary)] = verdict(canary, stable)
    return found


def first_alarm(seed: int, *, faults: float = 0.0, times: Times, most: int) -> int:
    """How many judged requests it takes until the canary is found worse; `most` where it never is."""
    found = looks(seed, faults=faults, times=times, most=most)
    return next((number for number, one in found.items() if one is WORSE), most)


def test_equal_versions_hardly_ever_go_back() -> None:
    """60 steps of 200 requests: 0.06 alarms are expected at most."""
    found = [looks(seed, times=SAME, faults=0.01, stable_faults=0.01, most=200) for seed in range(60)]
    assert not any(WORSE in one.values() for one in found)


def test_looking_often_finds_a_canary_at_its_limit_doubtful_but_not_worse() -> None:
    """A look at DOUBT alone would be wrong once in twenty; of thirty looks, one often is."""
    found = [looks(seed, times=lognormal(300.0), most=200) for seed in range(60)]
    assert not any(WORSE in one.values() for one in found)
    assert sum(DOUBTFUL in one.values() for one in found) >= 6


def test_a_fifth_of_faults_is_found_within_80_requests() -> None:
    assert max(first_alarm(seed, faults=0.2, times=SAME, most=400) for seed in range(40)) <= 80


def test_twice_as_slow_is_found_within_some_hundred_requests() -> None:
    found = sorted(first_alarm(seed, times=lognormal(400.0), most=2_000) for seed in range(15))
    assert (found[len(found) // 2] <= 400, found[-1] < 1_500) == (True, True)
