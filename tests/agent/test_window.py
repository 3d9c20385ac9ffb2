"""Sliding windows over counters."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metrics_agent.window import CounterWindow, HistogramWindow

INF = math.inf


def histogram(*counts, bounds=(0.1, 1.0, INF), key=b"s"):
    return {key: dict(zip(bounds, counts, strict=True))}


def test_first_look_is_a_baseline():
    window = HistogramWindow()
    window.observe(0, histogram(500, 900, 1000))
    assert window.quantile(0, 0.99) is None


def test_quantile_is_linear_within_its_bucket():
    window = HistogramWindow()
    window.observe(0, histogram(0, 0, 0))
    window.observe(1, histogram(50, 100, 100))
    assert window.quantile(1, 0.99) == pytest.approx(0.1 + 0.9 * 49 / 50)
    assert window.quantile(1, 0.5) == pytest.approx(0.1)
    assert window.quantile(1, 0.25) == pytest.approx(0.05)


def test_beyond_the_last_bound_the_last_bound_is_told():
    window = HistogramWindow()
    window.observe(0, histogram(0, 0, 0))
    window.observe(1, histogram(0, 0, 9))
    assert window.quantile(1, 0.99) == 1.0


def test_observations_leave_after_sixty_seconds():
    window = HistogramWindow()
    window.observe(0, histogram(0, 0, 0))
    for second in range(1, 121):
        window.observe(second, histogram(0, 10, 10) if second < 60 else histogram(0 + second, 10 + second, 10 + second))
    assert window.quantile(120, 0.99) == pytest.approx(0.099)


def test_idle_window_is_unknown_again():
    window = HistogramWindow()
    window.observe(0, histogram(0, 0, 0))
    window.observe(1, histogram(0, 5, 5))
    assert window.quantile(59, 0.99) is not None
    assert window.quantile(66, 0.99) is None


def test_reset_counts_what_it_shows():
    window = HistogramWindow()
    window.observe(0, histogram(100, 100, 100))
    window.observe(1, histogram(0, 4, 4))
    assert window.quantile(1, 0.5) == pytest.approx(0.55)


def test_reset_of_one_engine_leaves_the_other():
    window = CounterWindow()
    window.observe(0, {b"0": 1000.0, b"1": 1000.0})
    window.observe(10, {b"0": 1100.0, b"1": 7.0})
    assert window.increase(10) == 107.0


def test_series_that_appears_later_started_at_zero():
    window = CounterWindow()
    window.observe(0, {b"0": 1000.0})
    window.observe(10, {b"0": 1000.0, b"1": 30.0})
    assert window.rate(10) == 3.0


def test_rate_counts_the_time_looked_at():
    window = CounterWindow()
    window.observe(0, {b"": 5.0})
    assert window.rate(0) is None
    window.observe(0.5, {b"": 55.0})
    assert window.rate(0.5) is None
    window.observe(2, {b"": 105.0})
    assert window.rate(2) == 50.0


def test_gap_longer_than_the_window_is_a_baseline():
    window = CounterWindow()
    window.observe(0, {b"": 0.0})
    window.observe(100, {b"": 1e6})
    assert window.increase(100) is None


def test_look_without_the_family_changes_nothing():
    window = CounterWindow()
    window.observe(0, {b"": 5.0})
    window.observe(1, {})
    window.observe(2, {b"": 9.0})
    assert window.increase(2) == 4.0


def test_series_that_a_look_lacks_goes_on_from_where_it_was():
    window = CounterWindow()
    window.observe(0, {b"0": 1000.0, b"1": 5.0})
    window.observe(1, {b"1": 6.0})
    window.observe(2, {b"0": 1010.0, b"1": 6.0})
    assert window.increase(2) == 1.0 + 10.0


@given(st.lists(st.tuples(st.floats(0.1, 10), st.integers(0, 50), st.integers(0, 50)), min_size=2, max_size=40))
def test_quantile_lies_within_the_bounds_and_rates_are_not_negative(looks):
    window, at = HistogramWindow(), 0.0
    low = high = 0
    for wait, more_low, more_high in looks:
        at, low, high = at + wait, low + more_low, high + more_low + more_high
        window.observe(at, histogram(low, high, high))
        p99 = window.quantile(at, 0.99)
        assert p99 is None or 0 < p99 <= 1.0
        rate = window.rate(at)
        assert rate is None or rate >= 0
