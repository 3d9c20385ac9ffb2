"""The smoothing of weights: what its docstring promises."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.domain.ewma import DEFAULT, EwmaSettings, settled, shown, smooth, tuned

inputs = st.lists(st.floats(0, 1), min_size=1, max_size=90)
settings = st.builds(EwmaSettings, alpha=st.floats(0.01, 1), window=st.integers(1, 128))
MEDIAN_TURNS = 3


def after(values, rules=DEFAULT, before=None):
    told = []
    for value in values:
        before = smooth(before, value, rules)
        told.append(before)
    return told


def test_first_input_is_the_result():
    [first] = after([0.7])
    assert (first.value, first.plain) == (0.7, 0.7)


def test_without_smoothing_the_median_is_the_result():
    assert [one.value for one in after([0.2, 0.2, 0.2, 0.8, 0.8, 0.8], EwmaSettings(alpha=1.0))][-2:] == [0.2, 0.8]


@given(inputs, settings)
def test_result_lies_between_the_least_and_the_greatest_input(values, rules):
    for one in after(values, rules):
        assert min(values) <= one.value <= max(values)
        assert min(values) - 1e-12 <= one.plain <= max(values) + 1e-12


@given(st.floats(0, 1), st.floats(0, 1), settings)
def test_constant_target_is_approached_from_a_settled_state_and_never_passed(start, target, rules):
    left = [abs(start - target)]
    for one in after([target] * 90, rules, settled(start, rules)):
        distance = abs(one.value - target)
        assert (one.value - target) * (start - target) >= -1e-12
        assert distance <= left[-1] + 1e-12
        left.append(distance)
    for ticks in range(MEDIAN_TURNS, 90):
        assert left[ticks] <= (1 - rules.alpha) ** (ticks - MEDIAN_TURNS + 1) * left[0] + 1e-9


@given(inputs, st.floats(0, 1), settings)
def test_constant_target_is_met_exactly_once_the_window_holds_nothing_else(values, target, rules):
    before = after(values, rules)[-1]
    assert after([target] * (rules.window + 2), rules, before)[-1].value == pytest.approx(target, abs=1e-12)


@given(st.floats(0, 1), settings)
def test_nothing_moves_where_target_and_value_agree(value, rules):
    assert {one.value for one in after([value] * 5, rules, settled(value, rules))} == {value}


@given(st.floats(0, 1), st.lists(st.floats(0, 1), min_size=1, max_size=2), settings)
def test_up_to_two_outliers_change_nothing(value, outliers, rules):
    told = after([*outliers, *[value] * 10], rules, settled(value, rules))
    assert {one.value for one in told} == {value}


@given(st.floats(0, 0.4))
def test_plain_ewma_follows_the_outlier_that_the_windowed_one_ignores(value):
    [told] = after([value + 0.5], before=settled(value))
    assert told.value == value
    assert told.plain == pytest.approx(value + 0.05)


def test_bad_values_leave_the_last_good_one():
    last = EwmaSettings(alpha=0.3)
    changed, refused = tuned(DEFAULT, {"ewma.alpha": "7", "ewma.window": "8", "load.vram": "x"}, last)
    assert changed == EwmaSettings(alpha=0.3, window=8)
    assert list(refused) == ["ewma.alpha"]
    assert shown(changed) == {"ewma.alpha": 0.3, "ewma.window": 8}
