"""Objectives, and how fast their budgets burn."""

from __future__ import annotations

import pytest

from tests.outcomes.entries import outcome
from tidegate.domain.outcomes.ending import Ending
from tidegate.domain.outcomes.slo import FAST, Counts, Ledger, Slo, burn_rate, burns

SLO = Slo("m", ttfb_p95_ms=100, error_rate=0.01, availability=0.999)
MINUTE = 60_000


def ledger(*endings: Ending, ttfb_ms: float = 20.0, reason: str = "") -> Ledger:
    one = Ledger(SLO.ttfb_p95_ms)
    for ending in endings:
        one.add(outcome(ending, ttfb_ms=ttfb_ms, reason=reason), 0)
    return one


def test_a_budget_that_is_spent_exactly_burns_at_one() -> None:
    counts = Counts(served=100, late=5, answered=100, faults=1, wanted=1000, unserved=1)
    rates = [burn_rate(SLO, objective, counts) for objective in SLO.objectives]
    assert rates == pytest.approx([1.0, 1.0, 1.0])


def test_without_requests_nothing_burns() -> None:
    assert [burn_rate(SLO, objective, Counts()) for objective in SLO.objectives] == [None, None, None]
    assert not burns(None, None)


ENDINGS = {
    "served in time": (ledger(Ending.SERVED), Counts(served=1, answered=1, wanted=1)),
    "served late": (ledger(Ending.SERVED, ttfb_ms=101), Counts(served=1, late=1, answered=1, wanted=1)),
    "client error": (ledger(Ending.CLIENT_ERROR), Counts(answered=1, wanted=1)),
    "fault": (ledger(Ending.FAULT), Counts(answered=1, faults=1, wanted=1, unserved=1)),
    "back-pressure": (ledger(Ending.BACK_PRESSURE), Counts(answered=1, wanted=1, unserved=1)),
    "left": (ledger(Ending.LEFT), Counts()),
    "refused for want of room": (ledger(Ending.REFUSED, reason="queue-timeout"), Counts(wanted=1, unserved=1)),
    "refused by its own doing": (ledger(Ending.REFUSED, reason="invalid-json"), Counts()),
}


@pytest.mark.parametrize(("one", "counts"), ENDINGS.values(), ids=ENDINGS)
def test_what_counts_against_which_objective(one: Ledger, counts: Counts) -> None:
    assert one.spans(0).short == counts
    assert one.spans(0).long == counts


def test_the_short_window_forgets_after_five_minutes_and_the_long_one_after_an_hour() -> None:
    one = ledger(Ending.FAULT)
    assert one.spans(5 * MINUTE - 1).short.faults == 1
    assert one.spans(5 * MINUTE).short.faults == 0
    assert one.spans(60 * MINUTE - 1).long.faults == 1
    assert one.spans(60 * MINUTE).long.faults == 0


def test_both_windows_have_to_burn_fast() -> None:
    assert burns(FAST, FAST)
    assert not burns(100.0, FAST - 1)
    assert not burns(FAST - 1, 100.0)
