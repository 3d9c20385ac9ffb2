"""Tails against sums of whole numbers, and against what they stand for."""

from __future__ import annotations

from fractions import Fraction
from math import comb

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.domain.rollout.chance import binomial_tail, exceedance_tail, fisher_tail

SMALL = st.integers(1, 40)


@given(SMALL, st.integers(0, 40), st.integers(1, 99))
def test_the_binomial_tail_is_the_sum_of_its_terms(requests: int, bad: int, percent: int) -> None:
    bad, p = min(bad, requests), Fraction(percent, 100)
    exact = sum(comb(requests, k) * p**k * (1 - p) ** (requests - k) for k in range(bad, requests + 1))
    assert binomial_tail(bad, requests, percent / 100) == pytest.approx(float(exact), rel=1e-9)


@given(SMALL, SMALL, SMALL, SMALL)
def test_fishers_tail_counts_ways_to_share_the_bad_ones(n: int, m: int, bad: int, other: int) -> None:
    bad, other = min(bad, n), min(other, m)
    ways = sum(comb(n, k) * comb(m, bad + other - k) for k in range(bad, min(n, bad + other) + 1))
    assert fisher_tail(bad, n, other, m) == pytest.approx(ways / comb(n + m, bad + other), rel=1e-9)


@given(SMALL, SMALL, SMALL, SMALL)
def test_exceedances_are_counted_orders_of_both_samples(n: int, above: int, m: int, rank: int) -> None:
    above, rank = min(above, n), min(rank, m)
    ways = sum(comb(n - k + rank - 1, rank - 1) * comb(k + m - rank, m - rank) for k in range(above, n + 1))
    assert exceedance_tail(above, n, rank, m) == pytest.approx(ways / comb(n + m, n), rel=1e-9)


def test_nothing_bad_says_nothing() -> None:
    assert binomial_tail(0, 10, 0.01) == fisher_tail(0, 10, 3, 10) == exceedance_tail(0, 10, 9, 10) == 1.0


def test_many_requests_do_not_overflow() -> None:
    assert binomial_tail(1_200, 1_000_000, 0.001) < 1e-8
    assert fisher_tail(1_300, 100_000, 1_000, 100_000) < 1e-8
    assert exceedance_tail(7_000, 100_000, 95_000, 100_000) < 1e-8
    assert binomial_tail(9_000, 1_000_000, 0.01) > 0.99
    assert binomial_tail(1, 1_000_000, 0.5) == 1.0
