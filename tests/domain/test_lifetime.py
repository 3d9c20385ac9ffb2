"""How long an order holds, as people type it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.domain.lifetime import LONGEST_MS, Timed, duration_ms, duration_text, read_timed, time_text, timed_text

NOW = 1_764_455_000_500
MINUTE = 60_000


@pytest.mark.parametrize(
    ("text", "rest", "ends_in_ms"),
    [
        ("300", "300", None),
        ("300 for 10m", "300", 10 * MINUTE + 500),
        ("300  for  1h30m", "300", 90 * MINUTE + 500),
        ("kernel update for 2d", "kernel update", 2880 * MINUTE + 500),
        ("for 90s", "", 90_500),
        ("out for lunch", "out for lunch", None),
        ("300 for 10 m", "300 for 10 m", None),
        ("300 for 0s", "300 for 0s", None),
        ("300 for 9999d", "300 for 9999d", None),
        ("300 until tomorrow", "300 until tomorrow", None),
        ("300 until 2025-13-01T00:00:00Z", "300 until 2025-13-01T00:00:00Z", None),
        ("", "", None),
    ],
)
def test_a_text_ends_in_a_lifetime_or_is_all_rest(text: str, rest: str, ends_in_ms: int | None) -> None:
    timed = read_timed(text, NOW)
    assert timed.rest == rest
    assert timed.until_ms == (None if ends_in_ms is None else NOW + ends_in_ms)
    assert timed.spoken is (ends_in_ms is not None)


def test_an_order_ends_at_its_time_and_not_before() -> None:
    timed = read_timed("300 until 2026-11-29T22:41:03Z", NOW)
    assert timed == Timed("300", 1_795_992_063_000)
    assert not timed.is_over(1_795_992_062_999)
    assert timed.is_over(1_795_992_063_000)
    assert not Timed("300").is_over(1 << 60)


@pytest.mark.parametrize("text", ["", "10", "m", "10m5", "-5m", "1.5h", "٣m", "5M", "367d", "0s"])
def test_what_is_no_duration_is_refused_with_half_a_sentence(text: str) -> None:
    with pytest.raises(ValueError, match=r"is no duration such as 90s|is not between 1s and 366d"):
        duration_ms(text)


@given(st.integers(1, LONGEST_MS // 1000))
def test_durations_read_back_to_two_units(seconds: int) -> None:
    shown = duration_ms(duration_text(seconds * 1000))
    assert shown <= seconds * 1000
    assert seconds * 1000 - shown < max(1000, seconds * 1000 / 20)


@given(st.integers(0, 4_000_000_000), st.sampled_from(["300", "disk", ""]))
def test_the_text_with_a_time_reads_back(second: int, rest: str) -> None:
    timed = read_timed(timed_text(rest, second * 1000), NOW)
    assert (timed.rest, timed.until_ms) == (rest, second * 1000)
    assert time_text(second * 1000).endswith("Z")


@given(st.text())
def test_any_text_is_an_order_whose_text_means_the_same(text: str) -> None:
    timed = read_timed(text, NOW)
    again = read_timed(timed.text, NOW)
    assert (again.rest, again.until_ms) == (timed.rest.strip() if timed.until_ms else timed.rest, timed.until_ms)
