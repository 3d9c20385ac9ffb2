"""What operators type becomes a plan, or a sentence."""

from __future__ import annotations

import pytest

from tidegate.domain.rollout.plan import read_plan, read_steps

ORDER = ("stable", "canary", "other")
ALL = (("stable", 1000), ("canary", 0))


def test_a_cluster_is_enough() -> None:
    plan = read_plan({"to": "canary"}, ALL, ORDER)
    assert (plan.stable, plan.canary, plan.steps, plan.hold_ms) == (
        "stable",
        "canary",
        (10, 50, 250, 500, 1000),
        600_000,
    )
    limits = plan.limits
    assert (limits.max_error_ratio, limits.max_p95_ratio, limits.min_requests) == (0.01, 1.5, 50)
    assert limits.max_silence_ms == 120_000


def test_rates_may_be_percent_and_steps_tenths() -> None:
    fields = {"to": "canary", "steps": "0.1%, 2.5, 100", "max_error_rate": "5%", "hold": "90s"}
    plan = read_plan(fields, ALL, ORDER)
    assert (plan.steps, plan.limits.max_error_ratio, plan.hold_ms) == ((1, 25, 1000), 0.05, 90_000)


def test_other_versions_keep_their_shares_throughout() -> None:
    before = (("stable", 500), ("canary", 100), ("other", 400))
    plan = read_plan({"to": "canary", "steps": "5,60"}, before, ORDER)
    assert plan.parts(50, ORDER) == (("stable", 550), ("canary", 50), ("other", 400))
    assert plan.parts(600, ORDER) == (("stable", 0), ("canary", 600), ("other", 400))
    assert plan.parts(0, ORDER) == (("stable", 600), ("canary", 0), ("other", 400))


def test_it_takes_from_the_largest_version_unless_told() -> None:
    before = (("stable", 300), ("canary", 0), ("other", 700))
    assert read_plan({"to": "canary", "steps": "50"}, before, ORDER).stable == "other"
    assert read_plan({"to": "canary", "from": "stable", "steps": "30"}, before, ORDER).stable == "stable"


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({}, "nothing says which version"),
        ({"to": "canari"}, "there is no cluster 'canari' \\(there are: stable, canary, other\\)"),
        ({"to": "canary", "from": "x"}, "there is no cluster 'x'"),
        ({"to": "canary", "from": "canary"}, "the same cluster"),
        ({"to": "canary", "steps": "5,1"}, "do not rise"),
        ({"to": "canary", "steps": "5,5"}, "do not rise"),
        ({"to": "canary", "steps": "0"}, "the step '0'"),
        ({"to": "canary", "steps": "0.05"}, "the step '0.05'"),
        ({"to": "canary", "steps": "101"}, "the step '101'"),
        ({"to": "canary", "steps": ""}, "the step ''"),
        ({"to": "canary", "hold": "soon"}, "the hold 'soon' is no duration"),
        ({"to": "canary", "max_silence": "0s"}, "the silence '0s' is no duration"),
        ({"to": "canary", "max_error_rate": "20"}, "the error rate '20' is not a part"),
        ({"to": "canary", "max_error_rate": "nan"}, "the error rate"),
        ({"to": "canary", "max_p95_ratio": "0.5"}, "the p95 ratio '0.5'"),
        ({"to": "canary", "min_requests": "0"}, "'0' requests are not"),
    ],
)
def test_what_is_wrong_is_said(fields: dict[str, str], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        read_plan(fields, ALL, ORDER)


def test_steps_beyond_what_both_have_are_refused() -> None:
    with pytest.raises(ValueError, match="last step is 100 %, but stable and canary have 60 % together"):
        read_plan({"to": "canary", "from": "stable"}, (("stable", 600), ("canary", 0), ("other", 400)), ORDER)


def test_who_has_most_already_loses_nothing_to_a_first_step() -> None:
    """To begin at 1 % would give 99 % to the version that has nothing."""
    with pytest.raises(ValueError, match="stable has 100 %, more than canary, and the first step would give it less"):
        read_plan({"to": "stable"}, ALL, ORDER)
    assert read_plan({"to": "canary"}, (("stable", 900), ("canary", 100)), ORDER).steps[0] == 10
    assert read_plan({"to": "canary", "steps": "70,100"}, (("stable", 400), ("canary", 600)), ORDER).steps[0] == 700


def test_tenths_of_a_percent_are_parts_per_thousand() -> None:
    assert read_steps("0.1,0.9,99.9") == (1, 9, 999)
