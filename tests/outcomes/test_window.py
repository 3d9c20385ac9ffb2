"""Sketches, tallies and windows against plain lists of numbers."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.outcomes.entries import outcome
from tidegate.domain.outcomes.ending import Ending
from tidegate.domain.outcomes.report import Report, cluster_seen, models_seen, replicas_seen
from tidegate.domain.outcomes.sketch import LEAST_MS, MOST_MS, Sketch
from tidegate.domain.outcomes.slo import Counts, Spans
from tidegate.domain.outcomes.tally import Tally, merged, tally_of
from tidegate.domain.outcomes.window import SLOT_MS, SLOTS, Window

MILLISECONDS = st.floats(min_value=LEAST_MS, max_value=MOST_MS)


def sketch_of(values: Sequence[float]) -> Sketch:
    sketch = Sketch()
    for value in values:
        sketch.add(value)
    return sketch


def exact(values: Sequence[float], part: float) -> float:
    return sorted(values)[int(part * (len(values) - 1))]


@given(st.lists(st.lists(MILLISECONDS, min_size=1, max_size=40), min_size=1, max_size=5), st.floats(0, 1))
def test_a_quantile_of_merged_sketches_is_within_one_percent(parts: list[list[float]], part: float) -> None:
    whole = sketch_of(parts[0])
    for more in parts[1:]:
        whole.merge(Sketch.of_bins(sketch_of(more).bins()))
    values = [value for one in parts for value in one]
    assert whole.count == len(values)
    assert whole.quantile_ms(part) == pytest.approx(exact(values, part), rel=0.01 + 1e-9)


def test_latencies_as_engines_have_them_are_within_one_percent() -> None:
    rng = random.Random(3)
    values = [rng.lognormvariate(6, 1.5) for _ in range(20_000)]
    for part in (0.5, 0.95, 0.99):
        assert sketch_of(values).quantile_ms(part) == pytest.approx(exact(values, part), rel=0.0101)


def test_an_empty_sketch_knows_nothing() -> None:
    assert (Sketch().count, Sketch().bins(), Sketch().quantile_ms(0.95)) == (0, [], None)


@pytest.mark.parametrize("bins", [[10**9, 5], [1, -5], [-(10**9), 1], [3]], ids=["far", "negative", "low", "odd"])
def test_bins_that_no_sketch_has_count_nothing(bins: list[int]) -> None:
    assert Sketch.of_bins(bins).count == 0


def test_a_tally_crosses_redis_whole() -> None:
    tally = Tally()
    for ending in Ending:
        tally.add(outcome(ending, received_bytes=3, sent_bytes=5, attempts=2))
    again = tally_of(tally.told(1000, [9] * 6))
    assert again.counts == [1] * 6
    assert (again.retries, again.received_bytes, again.sent_bytes) == (6, 18, 30)
    assert [s.count for s in (again.ttfb, again.total, again.engine)] == [1, 1, 1]
    assert again.total.quantile_ms(0.5) == tally.total.quantile_ms(0.5)


def test_clients_that_left_and_refusals_are_in_no_error_rate() -> None:
    tally = Tally()
    for ending, count in ((Ending.SERVED, 6), (Ending.FAULT, 2), (Ending.LEFT, 50), (Ending.REFUSED, 50)):
        for _ in range(count):
            tally.add(outcome(ending))
    assert (tally.answered, tally.ratio(Ending.FAULT)) == (8, 0.25)
    assert Tally().ratio(Ending.FAULT) is None


def test_a_window_forgets_after_a_minute_and_not_before() -> None:
    window = Window(0)
    window.add(outcome(), 1_000)
    window.add(outcome(Ending.FAULT), 58_000)
    assert window.tally(59_000).counts[:4] == [1, 0, 0, 1]
    assert window.tally((SLOTS + 1) * SLOT_MS - 1).counts[:4] == [1, 0, 0, 1]
    assert window.tally((SLOTS + 1) * SLOT_MS).counts[:4] == [0, 0, 0, 1]
    assert window.tally(10**9).counts == [0] * 6


@given(st.lists(st.integers(0, 200_000), max_size=60), st.integers(0, 200_000))
def test_a_window_holds_what_ended_within_its_span(ends: list[int], more: int) -> None:
    window, ends = Window(0), sorted(ends)
    for at in ends:
        window.add(outcome(), at)
    now = (ends[-1] if ends else 0) + more
    first = (now // SLOT_MS - SLOTS) * SLOT_MS
    assert window.tally(now).counts[0] == sum(1 for at in ends if at >= first)
    assert 1 <= window.span_ms(now) < (SLOTS + 1) * SLOT_MS
    assert window.span_ms(now) in (max(1, now), now - first)


def test_a_look_changes_nothing() -> None:
    window = Window(0)
    for at in range(0, 60_000, 1_000):
        window.add(outcome(), at)
    looks = [window.tally(60_000) for _ in range(3)]
    assert [tally.counts[0] for tally in looks] == [60, 60, 60]
    assert looks[2].total.count == 60


def test_reports_of_several_instances_add_up() -> None:
    one, other = Tally(), Tally()
    for _ in range(30):
        one.add(outcome())
    for _ in range(10):
        other.add(outcome(Ending.FAULT))
    spans = Spans(Counts(answered=1, wanted=1), Counts(answered=2, wanted=3))
    reports = [
        Report({"chat": {"a:1": one.told(60_000, [30, 0, 0, 0, 0, 0])}}, {"m": spans}),
        Report({"chat": {"a:1": other.told(10_000, [0, 0, 0, 10, 0, 0])}, "more": {}}, {"m": spans}),
    ]
    seen = replicas_seen(reports)["chat"]["a:1"]
    assert (seen.tally.counts[:4], seen.ever[:4]) == ([30, 0, 0, 10], (30, 0, 0, 10))
    assert seen.per_second == pytest.approx(30 / 60 + 10 / 10)
    assert seen.error_ratio == 0.25
    assert models_seen(reports)["m"] == Spans(Counts(answered=2, wanted=2), Counts(answered=4, wanted=6))
    assert cluster_seen([seen, seen]).tally.counts[0] == 60
    assert merged([]).answered == 0
