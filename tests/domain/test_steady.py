"""Steady shares: noise is averaged out, changes are followed."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.domain.ramp import FIRST_PART, limited, ramp_part
from tidegate.domain.steady import Steady, steady

TICK = 0.25
positive = st.floats(0.01, 1)


def follow(targets, before=None):
    """The values after each of `targets`, a tick apart."""
    told, state = [], before or {}
    for target in targets:
        state = steady(state, target, TICK)
        told.append(state)
    return told


def share(state, address):
    return state[address].value / sum(one.value for one in state.values())


@given(st.lists(positive, min_size=1, max_size=5), st.lists(positive, min_size=1, max_size=5))
def test_shares_approach_those_of_constant_targets(values, wanted):
    targets = {str(n): value for n, value in enumerate(wanted)}
    before = {str(n): Steady(value, 120.0) for n, value in enumerate(values[: len(wanted)])}
    state = before
    for _ in range(200):
        state = steady(state, targets, 5.0)
    for address, target in targets.items():
        assert share(state, address) == pytest.approx(target / sum(targets.values()), rel=0.05)


@given(st.lists(positive, min_size=2, max_size=5), positive)
def test_what_all_do_alike_moves_no_share(values, factor):
    before = {str(n): Steady(value, 30.0) for n, value in enumerate(values)}
    targets = {address: one.value * factor for address, one in before.items()}
    for state in follow([targets] * 50, before):
        for address in targets:
            assert share(state, address) == pytest.approx(share(before, address))


def test_noise_is_averaged_out():
    rng = random.Random(1)
    noisy = [{a: 0.5 * (1 + rng.uniform(-0.3, 0.3)) for a in "ab"} for _ in range(2000)]
    shares = [share(state, "a") for state in follow(noisy)[400:]]
    assert max(abs(one / 0.5 - 1) for one in shares) < 0.05


def test_a_halved_replica_is_followed_within_seconds():
    before = follow([{"a": 0.5, "b": 0.5}] * 1000)[-1]
    told = [share(state, "a") for state in follow([{"a": 0.2, "b": 0.5}] * 60, before)]
    assert told[int(1.25 / TICK)] > 0.45
    assert told[int(6 / TICK)] < 0.34


def test_one_tick_far_off_is_no_alarm():
    before = follow([{"a": 0.5, "b": 0.5}] * 1000)[-1]
    [after] = follow([{"a": 0.05, "b": 0.5}], before)
    assert share(after, "a") == pytest.approx(0.5, rel=0.02)
    assert after["a"].age_seconds > 60


def test_a_late_tick_does_not_overshoot():
    after = steady({"a": Steady(0.2), "b": Steady(0.8)}, {"a": 0.5, "b": 0.5}, 1000.0)
    assert {address: (one.value, one.age_seconds) for address, one in after.items()} == {
        "a": (0.5, 120.0),
        "b": (0.5, 120.0),
    }


def test_a_new_replica_begins_at_its_target_on_the_level_of_the_others():
    after = steady({"a": Steady(0.4, 100.0)}, {"a": 0.4, "b": 0.2}, TICK)
    assert (after["a"].value, after["b"].value) == (0.4, 0.2)


def test_no_targets_are_no_values():
    assert steady({"a": Steady(0.4)}, {}, TICK) == {}


# --- ramp and step ------------------------------------------------------------------------------------------


@given(st.floats(0, 100), st.floats(0, 100), st.floats(0, 100))
def test_ramp_only_rises_and_ends_at_the_whole_share(one, other, length):
    first, second = sorted((one, other))
    assert FIRST_PART <= ramp_part(first, length) <= ramp_part(second, length) <= 1.0
    assert ramp_part(length, length) == ramp_part(None, length) == 1.0


@given(positive, st.floats(0, 1), st.floats(0, 5), st.floats(1.01, 1000))
def test_step_is_bounded_but_to_zero(last, wanted, seconds, most):
    got = limited(last, wanted, seconds, most)
    if wanted == 0:
        assert got == 0
    else:
        assert most**-seconds * (1 - 1e-9) <= got / last <= most**seconds * (1 + 1e-9)
        assert min(last, wanted) <= got <= max(last, wanted)


def test_zero_is_left_at_once():
    assert limited(0.0, 0.7, 0.25, 1.1) == 0.7


@pytest.mark.parametrize(("left", "off_seconds", "lasts"), [(0.7, 0.0, False), (0.7, -2.0, True), (0.85, -2.0, False)])
def test_an_alarm_lasts_until_half_of_what_raised_it_is_left(left, off_seconds, lasts):
    """A tail that is averaged out slowly would keep a slow replica overloaded."""
    before = {"a": Steady(1.0, age_seconds=120.0, off_seconds=off_seconds), "b": Steady(1.0, age_seconds=120.0)}
    after = steady(before, {"a": left, "b": 1.0}, TICK)["a"]
    assert (after.off_seconds < 0, after.age_seconds < 3) == (lasts, lasts)
