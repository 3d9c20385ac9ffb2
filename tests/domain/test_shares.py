"""Shares of traffic, and what an order makes of them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.domain.shares import Standing, after, serves_nobody, settled, shares, standing
from tidegate.domain.weights import DEFAULT

ONE = Standing(address="a:1", weight=100, automatic=600, status="ready")
TWO = Standing(address="b:1", weight=300, automatic=300, status="ready")

weights = st.lists(st.integers(0, 1000), min_size=1, max_size=8)


@given(weights)
def test_shares_sum_to_one_or_are_all_zero(numbers: list[int]) -> None:
    parts = shares([Standing(address=f"a:{n}", weight=weight) for n, weight in enumerate(numbers)])
    assert sum(part or 0 for part in parts.values()) == pytest.approx(1.0 if any(numbers) else 0.0)
    assert serves_nobody([Standing(address="a:1", weight=w) for w in numbers]) is not any(numbers)


def test_an_unknown_weight_has_no_share_and_no_replica_serves_nobody() -> None:
    assert shares([ONE, Standing(address="c:1")]) == {"a:1": 1.0, "c:1": None}
    assert not serves_nobody([])
    assert not serves_nobody([Standing(address="c:1")])


@pytest.mark.parametrize(
    ("weight", "order"),
    [
        (600, {}),
        (7, {"pinned": 7}),
        (0, {"pinned": 7, "drained": ""}),
        (0, {"pinned": 7, "status": "unreachable"}),
        (7, {"pinned": 7, "status": None}),
        (0, {"pinned": 0}),
    ],
)
def test_a_drain_wins_then_a_closed_state_then_a_pin(weight: int, order: dict[str, object]) -> None:
    assert after([ONE, TWO], {"a:1": replace(ONE, **order)}) == [replace(ONE, weight=weight, **order), TWO]


def test_a_standing_without_an_explanation_counts_as_published() -> None:
    assert standing("a:1", 500, {}) == Standing(address="a:1", weight=500, automatic=500)


def test_settled_weights_are_capacity_by_what_is_left_of_load() -> None:
    """1.00 × (1 − 0.4) and 0.5 × (1 − 0.2); of the third the load is unknown: 1.00 × (1 − 0.3)."""
    explained = {
        "a:1": {"capacity": 1.0, "load": {"latency": None, "vram": 0.4}},
        "b:1": {"capacity": 0.5, "load": {"latency": 0.2, "vram": 0.2}},
        "c:1": {"capacity": 1.0, "load": {}},
        "d:1": {},
    }
    assert settled(explained, DEFAULT) == {"a:1": 600, "b:1": 400, "c:1": 700}
    by_latency = replace(DEFAULT, weight=replace(DEFAULT.weight, policy="latency"))
    assert settled(explained, by_latency) == {"a:1": 800, "b:1": 400, "c:1": 800}
