"""Comparisons and ranges of tokens in rules."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.domain.routing import TokenRange, parse_token_range

numbers = st.integers(0, 10**9)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (">8192", TokenRange(8193)),
        (">= 1", TokenRange(1)),
        ("<100", TokenRange(0, 99)),
        ("<=100", TokenRange(0, 100)),
        ("=7", TokenRange(7, 7)),
        (" 1..100 ", TokenRange(1, 100)),
        ("0 .. 0", TokenRange(0, 0)),
    ],
)
def test_each_form_is_read(text: str, expected: TokenRange) -> None:
    assert parse_token_range(text) == expected


@pytest.mark.parametrize(
    "text", ["", "8192", "=>1", ">-1", "1...2", "1..", "..2", ">1.5", ">1e3", "2..1", "<0", ">١", "> 1 2"]
)
def test_what_no_request_can_satisfy_or_nobody_can_read_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"comparison|empty"):
        parse_token_range(text)


@given(numbers, numbers)
def test_a_comparison_means_what_it_says(bound: int, tokens: int) -> None:
    assert (tokens in parse_token_range(f">{bound}")) == (tokens > bound)
    assert (tokens in parse_token_range(f">={bound}")) == (tokens >= bound)
    assert (tokens in parse_token_range(f"<={bound}")) == (tokens <= bound)
    assert (tokens in parse_token_range(f"<{bound + 1}")) == (tokens < bound + 1)
    assert (tokens in parse_token_range(f"={bound}")) == (tokens == bound)


@given(numbers, numbers, numbers)
def test_both_ends_of_a_range_belong_to_it(one: int, other: int, tokens: int) -> None:
    low, high = sorted((one, other))
    assert (tokens in parse_token_range(f"{low}..{high}")) == (low <= tokens <= high)
