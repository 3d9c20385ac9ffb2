"""The replica target as a pure rule: bounds, speed, patience, and no change while nothing changes."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.domain.actions.effects import Scale
from tidegate.domain.scaling.crew import Crew, crew_of
from tidegate.domain.scaling.order import ORDER, ordered
from tidegate.domain.scaling.rule import FREE, Course, Orders, Reason, Target, decide
from tidegate.domain.scaling.settings import DEFAULT, ScaleSettings

LOOK_MS = 1_000


def course(desired: int, since_ms: int = 0) -> Course:
    target = Target(desired=desired, reason=Reason.OBSERVED, since_ms=since_ms)
    return Course(target=target, automatic=target)


def looked(
    before: Course | None,
    crew: Crew,
    seconds: int,
    *,
    settings: ScaleSettings = DEFAULT,
    orders: Orders = FREE,
    from_ms: int = 1_000_000,
) -> Course:
    """The course after so many seconds of the same look, one a second."""
    for now_ms in range(from_ms, from_ms + seconds * 1000 + 1, LOOK_MS):
        before = decide(before, crew, orders, settings, now_ms)
    assert before is not None
    return before


def test_the_replicas_that_are_there_are_the_first_target() -> None:
    first = decide(None, Crew(ready=2, coming=1, unknown=1, leaving=3), FREE, DEFAULT, 5)
    assert (first.target.desired, first.target.reason, first.target.since_ms) == (4, Reason.OBSERVED, 5)


@pytest.mark.parametrize(
    ("crew", "at", "wanted"),
    [
        (Crew(ready=2, load=0.9), 2, 3),
        (Crew(ready=10, load=0.9), 10, 14),
        (Crew(ready=1, load=0.86), 1, 2),
        (Crew(ready=4, load=1.0, backlog=3.0), 4, 8),
        (Crew(ready=2, load=0.9, coming=1), 3, None),
        (Crew(ready=2, load=0.85), 2, None),
        (Crew(ready=2, load=None), 2, None),
        (Crew(ready=3, load=0.95, unknown=1), 4, None),
        (Crew(ready=3, load=1.0, backlog=1.0, unknown=1), 4, 8),
    ],
    ids=[
        "ceil(1.8/0.65)",
        "ceil(9/0.65)",
        "at least one",
        "no faster than twofold",
        "loading ones count",
        "at the threshold",
        "no load known",
        "unknown ones count as idle",
        "they do not stop it",
    ],
)
def test_sustained_high_load_asks_for_more(crew: Crew, at: int, wanted: int | None) -> None:
    early = looked(course(at), crew, 29)
    assert early.target.desired == at
    late = looked(course(at), crew, 30).target
    assert (late.desired, late.reason) == ((wanted, Reason.LOAD) if wanted else (at, Reason.OBSERVED))


def test_latency_is_the_reason_where_it_is_the_largest_part() -> None:
    crew = Crew(ready=1, load=0.9, part="latency")
    assert looked(course(1), crew, 30).target.reason is Reason.LATENCY


def test_one_look_below_the_threshold_begins_the_wait_anew() -> None:
    after = looked(course(2), Crew(ready=2, load=0.9), 20)
    after = looked(after, Crew(ready=2, load=0.8), 1, from_ms=1_021_000)
    assert looked(after, Crew(ready=2, load=0.9), 29, from_ms=1_023_000).target.desired == 2


def test_the_least_of_what_was_asked_for_meanwhile_is_taken() -> None:
    after = looked(course(10), Crew(ready=10, load=1.0), 29)
    assert looked(after, Crew(ready=10, load=0.86), 1, from_ms=1_030_000).target.desired == math.ceil(8.6 / 0.65)


def test_low_load_asks_for_fewer_after_five_minutes_and_never_for_less_than_half() -> None:
    low = Crew(ready=8, load=0.1)
    assert looked(course(8), low, 299).target.desired == 8
    after = looked(course(8), low, 300)
    assert (after.target.desired, after.target.reason) == (4, Reason.LOW)
    assert looked(after, low, 299, from_ms=1_301_000).target.desired == 4


def test_what_is_low_but_needs_them_all_stays() -> None:
    assert looked(course(2), Crew(ready=2, load=0.39), 700).target.desired == 2


def test_an_idle_cluster_goes_to_its_least_and_to_none_only_where_that_is_none() -> None:
    idle = Crew(ready=3, load=0.0, idle=True)
    patient = ScaleSettings(down_seconds=86_400)
    assert looked(course(3), idle, 599, settings=patient).target.desired == 3
    assert looked(course(3), idle, 600, settings=patient).target.desired == 1
    to_none = looked(course(3), idle, 600, settings=replace(patient, least=0)).target
    assert (to_none.desired, to_none.reason) == (0, Reason.IDLE)


def test_low_load_alone_never_leads_to_none() -> None:
    low = Crew(ready=1, load=0.0)
    assert looked(course(4), low, 1_000, settings=ScaleSettings(least=0)).target.desired == 1


def test_a_request_wakes_a_cluster_without_replicas_at_once() -> None:
    asleep = course(0, since_ms=999_999)
    woken = decide(asleep, Crew(asked=True), FREE, ScaleSettings(least=0), 1_000_000).target
    assert (woken.desired, woken.reason) == (1, Reason.LOAD)
    assert decide(asleep, Crew(), FREE, ScaleSettings(least=0), 1_000_000).target.desired == 0


def test_after_a_change_there_is_a_rest_in_both_directions() -> None:
    high = Crew(ready=4, load=1.0)
    assert looked(course(4, since_ms=1_000_000), high, 59).target.desired == 4
    assert looked(course(4, since_ms=1_000_000), high, 60).target.desired == 7
    low = Crew(ready=8, load=0.1)
    assert looked(course(8, since_ms=1_100_000), low, 399).target.desired == 8
    assert looked(course(8, since_ms=1_100_000), low, 400).target.desired == 4


def test_bounds_hold_at_once_and_most_wins_over_least() -> None:
    now = Crew(ready=2, load=0.5)
    assert decide(course(2), now, FREE, ScaleSettings(least=5), 9).target.desired == 5
    assert decide(course(2), now, FREE, ScaleSettings(most=1), 9).target.desired == 1
    assert decide(course(2), now, FREE, ScaleSettings(least=5, most=3), 9).target.desired == 3
    assert decide(course(2), now, FREE, ScaleSettings(least=5), 9).target.reason is Reason.BOUNDS


ALERT = Scale(None, 2, "act-1")


@pytest.mark.parametrize(
    ("orders", "told"),
    [
        (Orders(replicas=9, alert=ALERT), (9, Reason.OPERATOR)),
        (Orders(replicas=0), (0, Reason.OPERATOR)),
        (Orders(alert=ALERT), (4, Reason.ALERT)),
        (Orders(alert=Scale(50, 0, "act-1")), (6, Reason.ALERT)),
        (FREE, (2, Reason.OBSERVED)),
    ],
    ids=["operator before alert and bounds", "operator to none", "alert by", "alert within bounds", "nobody"],
)
def test_who_wins(orders: Orders, told: tuple[int, Reason]) -> None:
    target = decide(course(2), Crew(ready=2, load=0.5), orders, ScaleSettings(most=6), 1_000_000).target
    assert (target.desired, target.reason) == told


def test_an_order_that_ends_leaves_what_the_load_asked_for_meanwhile() -> None:
    held = looked(course(2), Crew(ready=2, load=0.9), 40, orders=Orders(replicas=1))
    assert (held.target.desired, held.automatic.desired) == (1, 3)
    assert decide(held, Crew(ready=2, load=0.9), FREE, DEFAULT, 1_041_000).target.desired == 3


# --- properties ---------------------------------------------------------------------------------------------

ratios = st.floats(0.0, 1.0)
counts = st.integers(0, 40)
crews = st.builds(
    Crew,
    ready=counts,
    coming=counts,
    leaving=counts,
    unknown=counts,
    load=st.none() | ratios,
    backlog=st.floats(0.0, 50.0),
    idle=st.booleans(),
    asked=st.booleans(),
)
quick = st.builds(
    ScaleSettings,
    up_at=st.floats(0.05, 1.0),
    down_at=ratios,
    aim=st.floats(0.05, 1.0),
    least=counts,
    most=counts,
    speed=st.floats(1.0, 10.0),
    up_seconds=st.sampled_from([0.0, 3.0]),
    down_seconds=st.sampled_from([0.0, 3.0]),
    idle_seconds=st.sampled_from([0.0, 3.0]),
    up_cooldown_seconds=st.sampled_from([0.0, 2.0]),
    down_cooldown_seconds=st.sampled_from([0.0, 2.0]),
)


@given(st.lists(crews, min_size=1, max_size=30), quick)
def test_whatever_is_seen_targets_stay_in_bounds_and_grow_no_faster_than_allowed(
    seen: list[Crew], settings: ScaleSettings
) -> None:
    now_ms, after = 1_000_000, None
    for crew in seen:
        before, after = after, decide(after, crew, FREE, settings, now_ms)
        now_ms += LOOK_MS
        assert after.target.desired == settings.bounded(after.target.desired)
        if before is None or before.automatic.desired == 0:
            continue
        at, then = before.automatic.desired, after.automatic.desired
        assert then <= max(at + 1, math.ceil(at * settings.speed))
        if crew.unknown or (crew.load is None and not crew.idle):
            assert then >= at
        if then != at:
            rest = settings.up_cooldown_seconds if then > at else settings.down_cooldown_seconds
            assert after.automatic.since_ms - before.automatic.since_ms >= rest * 1000


@given(st.lists(crews, min_size=1, max_size=20), quick, counts, counts)
def test_of_two_clusters_that_differ_in_load_alone_the_fuller_one_wants_no_fewer(
    seen: list[Crew], settings: ScaleSettings, at: int, more: int
) -> None:
    known = [replace(crew, load=crew.load or 0.0, idle=False, asked=False) for crew in seen]
    start = course(settings.bounded(at))
    one = start
    for number, crew in enumerate(known):
        one = decide(one, crew, FREE, settings, 1_000_000 + number * LOOK_MS)
        if one.automatic.desired != start.automatic.desired:
            break
    other = start
    for number, crew in enumerate(known):
        fuller = replace(crew, load=min(1.0, (crew.load or 0.0) + more / 40))
        other = decide(other, fuller, FREE, settings, 1_000_000 + number * LOOK_MS)
        if one.automatic.desired > start.automatic.desired and other.automatic.desired != start.automatic.desired:
            break
    if one.automatic.desired > start.automatic.desired:
        assert other.automatic.desired >= one.automatic.desired
    else:
        assert other.automatic.desired >= min(one.automatic.desired, start.automatic.desired)


@given(st.floats(0.0, 30.0), quick, counts, st.integers(0, 8))
def test_steady_demand_comes_to_one_target_whose_load_is_right_and_stays_there(
    demand: float, settings: ScaleSettings, at: int, delay: int
) -> None:
    """Replicas come `delay` looks after they are asked for; those that leave do so at once."""
    settings = replace(settings, most=1_000, least=min(settings.least, 5), speed=max(1.3, settings.speed))
    now_ms, after, there = 1_000_000, course(settings.bounded(at)), [settings.bounded(at)] * (delay + 1)
    told = []
    for _ in range(120):
        ready = max(1, min(there[-1 - delay], after.target.desired))
        full = demand / ready
        crew = Crew(
            ready=ready,
            coming=max(0, after.target.desired - ready),
            load=min(1.0, full),
            backlog=max(0.0, full - 1.0),
        )
        after = decide(after, crew, FREE, settings, now_ms)
        there.append(after.target.desired)
        told.append(after.target.desired)
        now_ms += LOOK_MS
    rest = told[-20:]
    assert len(set(rest)) == 1
    if rest[0] > max(1, settings.least):
        assert demand / rest[0] <= settings.up_at + 1e-9


@given(crews, st.integers(1, 40))
def test_a_short_silence_of_all_changes_nothing(crew: Crew, at: int) -> None:
    silent = Crew(unknown=crew.ready + crew.coming)
    assert looked(course(at), silent, 310).automatic.desired == at


# --- what a look says ---------------------------------------------------------------------------------------


def why(status: str | None, load: float | None = None, **more: object) -> dict[str, object]:
    return {"status": status, "load": {"total": load, "latency": load, "vram": None, "entropy": 0.0}, **more}


def test_each_replica_is_counted_once_by_what_may_be_expected_of_it() -> None:
    crew = crew_of(
        {
            "a": why("ready", 0.4),
            "b": why("idle", 0.2),
            "c": why("ready", 0.9, drained="kernel"),
            "d": why("ready", 0.9, pinned=0),
            "e": why("draining"),
            "f": why("loading"),
            "g": why("asleep"),
            "h": why("unreachable"),
            "i": why(None, 0.9),
            "j": {},
        }
    )
    assert (crew.ready, crew.coming, crew.leaving, crew.unknown) == (2, 1, 3, 3)
    assert crew.load == pytest.approx(0.3)
    assert (crew.part, crew.idle) == ("latency", False)


def test_idle_is_who_is_seen_to_be() -> None:
    assert crew_of({"a": why("idle", 0.0)}).idle
    assert not crew_of({"a": why("idle", 0.0)}, asked=True).idle
    assert not crew_of({"a": why("idle", 0.0), "b": why(None)}).idle
    assert not crew_of({"a": why("ready", 0.0)}).idle
    assert not crew_of({}).idle


@pytest.mark.parametrize(
    ("text", "replicas", "until_ms"),
    [
        ("3", 3, None),
        ("0", 0, None),
        ("auto", None, None),
        ("3 for 10s", 3, 15_000),
        ("3 until 1970-01-01T00:00:06Z", 3, 6_000),
        ("3 until 1970-01-01T00:00:05Z", None, 5_000),
    ],
)
def test_an_order_has_a_number_and_maybe_an_end(text: str, replicas: int | None, until_ms: int | None) -> None:
    assert ORDER.read(text) == text
    number, timed = ordered(text, 5_000)
    assert (number, timed.until_ms) == (replicas, until_ms)


@pytest.mark.parametrize("text", ["", "-1", "3.5", "three", "3 replicas", "1000000", "for 1h", "٣"])
def test_what_is_no_order_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="auto or a whole number"):
        ORDER.read(text)


# --- a day in minutes ---------------------------------------------------------------------------------------

START_SECONDS = 90
"""From a target that rises to a replica that serves."""


def test_a_morning_rush_is_followed_and_the_evening_given_back() -> None:
    """Demand of 1 replica rises to 12 within five minutes, stays for half an hour, and falls to 1 again."""
    now_ms, after, began = 1_000_000, course(2), [(0, 2)]
    overloaded, changes = 0, 0
    for second in range(2 * 3600):
        demand = 1.0 + 11.0 * min(1.0, second / 300) if second < 2_100 else 1.0
        ready = min(after.target.desired, max(n for at, n in began if second - at >= START_SECONDS or not at))
        full = demand / ready
        crew = Crew(ready=ready, coming=after.target.desired - ready, load=min(1.0, full), backlog=max(0.0, full - 1))
        before, after = after.target.desired, decide(after, crew, FREE, DEFAULT, now_ms)
        if after.target.desired != before:
            changes += 1
            began = [(at, n) for at, n in began if n <= after.target.desired] + [(second, after.target.desired)]
        if second == 1_500:
            assert math.ceil(12 / DEFAULT.up_at) <= after.target.desired <= math.ceil(12 / DEFAULT.aim)
        overloaded += full > 1.0 and second > 900
        now_ms += LOOK_MS
    assert overloaded == 0
    assert after.target.desired == 2
    assert changes <= 9
