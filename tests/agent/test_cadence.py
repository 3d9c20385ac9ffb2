"""When a slot's tick is published."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metrics_agent.cadence import next_publish


@pytest.mark.parametrize(("began", "now"), [(10.0, 9.995), (10.0, 10.005), (10.1, 10.02), (10.1, 10.09)])
def test_tick_waits_for_the_scrapes_of_its_slot_but_not_past_half_of_it(began, now):
    slot = next_publish(now, 0.1)
    assert (slot.began, slot.earliest, slot.latest) == pytest.approx((began, began + 0.01, began + 0.05))


@given(st.floats(0, 1e7), st.floats(0.05, 60))
def test_next_tick_lies_ahead_and_within_two_slots(now, interval):
    slot = next_publish(now, interval)
    assert now - 1e-6 <= slot.earliest < slot.latest
    assert slot.earliest <= now + 1.2 * interval
