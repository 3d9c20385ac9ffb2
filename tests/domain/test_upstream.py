"""What operators may tune of Envoy, and what they are told when they may not."""

from __future__ import annotations

import pytest

from tidegate.domain.upstream import Balance, Upstream, tuned

FILE = Upstream(retries=1)


def test_fields_of_envoy_replace_the_file_s_and_others_are_none_of_it() -> None:
    fields = {"envoy.balance": "least_request", "envoy.active_request_bias": "0.5", "load.vram": "x"}
    expected = Upstream(retries=1, balance=Balance.LEAST_REQUEST, active_request_bias=0.5)
    assert tuned(FILE, fields, FILE) == (expected, {})


@pytest.mark.parametrize(
    ("field", "text", "why"),
    [
        ("envoy.retries", "6", "between 0 and 5"),
        ("envoy.retries", "1.5", "no whole number"),
        ("envoy.active_request_bias", "nan", "between"),
        ("envoy.balance", "random", "none of round_robin, least_request"),
        ("envoy.colour", "red", "no such setting"),
    ],
)
def test_a_bad_value_leaves_the_last_good_one_and_says_why(field: str, text: str, why: str) -> None:
    last = Upstream(retries=3, balance=Balance.LEAST_REQUEST, active_request_bias=2.0)
    settings, refused = tuned(FILE, {field: text}, last)
    name = field.removeprefix("envoy.")
    assert getattr(settings, name, None) == getattr(last, name, None)
    assert why in refused[field]
