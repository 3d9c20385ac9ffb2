"""Which notices do what, and what is known however often and in whichever order they come."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.actions.acts import NOW_MS
from tidegate.domain.actions.act import Deed, Kind
from tidegate.domain.actions.book import MOST_NOTICES, Book
from tidegate.domain.actions.notice import AGAIN_MS, KEPT_MS, Notice, label_hash
from tidegate.domain.actions.rules import Actions, Known, Matcher, Order, Rule, Rules, Unfit

CUT = Rule(
    name="cut",
    alerts=("Failing", "Broken"),
    labels=(("severity", Matcher(("critical",), re.compile("page-.*"))),),
    deeds=(Deed(kind=Kind.RETRIES, cluster="$cluster", to=0),),
)
RELEASE = Rule(name="release", tags=("release", "eu"), deeds=(Deed(kind=Kind.HOLD, classes=("batch",)),))
RULES = Rules(Actions((CUT, RELEASE)), Known({"phi-3"}, {"batch", "default"}, {"phi"}))
MINUTE_MS = 60_000


@pytest.mark.parametrize("severity", ["critical", "page-eu"])
def test_a_label_that_matches_fills_the_target(severity: str) -> None:
    [order] = RULES.of_alert("Failing", {"severity": severity, "cluster": "phi-3"})
    assert order == Order(
        rule="cut", deed=replace(CUT.deeds[0], cluster="phi-3"), for_ms=3_600_000, at_most_ms=86_400_000
    )


@pytest.mark.parametrize(
    ("name", "labels", "reason", "said"),
    [
        ("Other", {}, "unknown", "'Other'"),
        ("Failing", {"severity": "info", "cluster": "phi-3"}, "labels", "severity"),
        ("Failing", {"severity": "page"}, "labels", "severity"),
        ("Failing", {"severity": "critical"}, "labels", "'cluster'"),
        ("Failing", {"severity": "critical", "cluster": "phi3"}, "target", "'phi3'"),
    ],
)
def test_what_is_unfit_says_which_alert_and_label(name: str, labels: dict[str, str], reason: str, said: str) -> None:
    with pytest.raises(Unfit, match=re.escape(said)) as caught:
        RULES.of_alert(name, labels)
    assert caught.value.reason == reason
    assert name in str(caught.value)


def test_an_annotation_needs_all_tags_of_a_rule() -> None:
    assert [one.rule for one in RULES.of_annotation(["eu", "release", "x"], {})] == ["release"]
    with pytest.raises(Unfit):
        RULES.of_annotation(["release"], {})


def test_a_dry_run_of_all_is_one_of_each_rule() -> None:
    rules = Rules(Actions((CUT,), dry_run=True), Known({"phi-3"}))
    assert [one.dry_run for one in rules.of_alert("Broken", {"severity": "critical", "cluster": "phi-3"})] == [True]


# --- notices ------------------------------------------------------------------------------------------------

ORDER = Order(
    rule="cut", deed=Deed(kind=Kind.RETRIES, cluster="phi-3", to=0), for_ms=10 * MINUTE_MS, at_most_ms=60 * MINUTE_MS
)


def notice(**changes: Any) -> Notice:
    known = {"version_ms": NOW_MS, "first_ms": NOW_MS, "last_ms": NOW_MS, "orders": (ORDER,), **changes}
    if known.pop("over", False):
        known["ended_ms"] = known["version_ms"]
    return Notice(key="alert:1", cause="alert Failing", **known)


@st.composite
def notices(draw: st.DrawFn) -> Notice:
    at = NOW_MS + draw(st.integers(0, 5)) * 1_000
    orders = draw(st.sampled_from([(ORDER,), (), (ORDER, replace(ORDER, rule="other"))]))
    cancelled = draw(st.dictionaries(st.sampled_from(["a", "b"]), st.sampled_from(["ann", "bob"]), max_size=2))
    ended_ms = draw(st.none() | st.integers(-2, 1).map(lambda n: NOW_MS + n * 1_000))
    return notice(
        version_ms=NOW_MS - draw(st.integers(0, 2)) * 1_000,
        first_ms=at,
        last_ms=at,
        ended_ms=ended_ms,
        end_heard_ms=None if ended_ms is None else at,
        orders=orders,
        cancelled=cancelled,
    )


@settings(max_examples=40)
@given(notices(), notices(), notices())
def test_notices_join_in_any_order(a: Notice, b: Notice, c: Notice) -> None:
    assert a.joined(b) == b.joined(a)
    assert a.joined(b).joined(c) == a.joined(b.joined(c))
    assert a.joined(a) == a


@settings(max_examples=40)
@given(st.lists(notices(), min_size=1, max_size=8), st.randoms(use_true_random=False))
def test_a_book_is_the_same_however_often_and_in_whichever_order_it_hears(
    heard: list[Notice], rng: random.Random
) -> None:
    again = [*heard, *rng.choices(heard, k=5)]
    rng.shuffle(again)
    now_ms = NOW_MS + 10_000
    assert Book().after(heard, now_ms) == Book().after(again, now_ms)


@settings(max_examples=40)
@given(st.lists(notices(), min_size=1, max_size=8))
def test_an_alert_acts_exactly_while_its_newest_firing_is_not_resolved(heard: list[Notice]) -> None:
    newest = max(one.version_ms for one in heard)
    said = [one for one in heard if one.version_ms == newest]
    ended = max((one.ended_ms for one in heard if one.ended_ms is not None), default=0)
    expected = ended < newest and any(one.orders for one in said)
    assert bool(Book().after(heard, NOW_MS + 10_000).acts(NOW_MS + 10_000)) == expected


def test_the_same_alert_fifty_times_is_one_act_since_the_first() -> None:
    heard = [notice(first_ms=NOW_MS + n, last_ms=NOW_MS + n) for n in range(50)]
    [act] = Book().after(heard, NOW_MS + 50).acts(NOW_MS + 50)
    assert (act.since_ms, act.until_ms) == (NOW_MS, NOW_MS + 49 + 10 * MINUTE_MS)


def test_an_act_ends_when_nothing_was_heard_for_its_lifetime() -> None:
    book = Book().after([notice()], NOW_MS)
    assert book.acts(NOW_MS + 10 * MINUTE_MS - 1)
    assert not book.acts(NOW_MS + 10 * MINUTE_MS)


def test_repeats_keep_an_act_until_at_most_and_no_longer() -> None:
    heard = [notice(first_ms=NOW_MS + n * MINUTE_MS, last_ms=NOW_MS + n * MINUTE_MS) for n in range(0, 90, 5)]
    book = Book().after(heard, NOW_MS)
    assert book.acts(NOW_MS + 60 * MINUTE_MS - 1)
    assert not book.acts(NOW_MS + 60 * MINUTE_MS)
    fires_anew = notice(
        version_ms=NOW_MS + 91 * MINUTE_MS, first_ms=NOW_MS + 91 * MINUTE_MS, last_ms=NOW_MS + 91 * MINUTE_MS
    )
    assert book.after([fires_anew], NOW_MS + 91 * MINUTE_MS).acts(NOW_MS + 91 * MINUTE_MS)


def test_an_act_that_was_cancelled_stays_away_until_the_alert_fires_anew() -> None:
    book = Book().after([notice()], NOW_MS)
    [act] = book.acts(NOW_MS)
    cancelled = book.after([replace(notice(), cancelled={act.id: "cli:ann"}), notice(last_ms=NOW_MS + 5)], NOW_MS + 5)
    assert not cancelled.acts(NOW_MS + 5)
    assert cancelled.after([notice(version_ms=NOW_MS + 9)], NOW_MS + 9).acts(NOW_MS + 9)


def test_a_cancelled_act_stays_away_however_seldom_its_alert_is_repeated() -> None:
    rare = replace(ORDER, for_ms=5 * KEPT_MS, at_most_ms=100 * KEPT_MS)
    book = Book().after([notice(orders=(rare,))], NOW_MS)
    [act] = book.acts(NOW_MS)
    book = book.after([notice(orders=(rare,), cancelled={act.id: "cli:ann"})], NOW_MS)
    for hours in (4, 8):
        at_ms = NOW_MS + hours * KEPT_MS
        book = book.after([], at_ms - 1).after([notice(orders=(rare,), first_ms=at_ms, last_ms=at_ms)], at_ms)
        assert not book.acts(at_ms)


def test_at_most_bounds_an_act_however_seldom_its_alert_is_repeated() -> None:
    rare = replace(ORDER, for_ms=5 * KEPT_MS, at_most_ms=6 * KEPT_MS)
    book = Book()
    for hours in (0, 4, 8, 12):
        at_ms = NOW_MS + hours * KEPT_MS
        book = book.after([], at_ms - 1).after([notice(orders=(rare,), first_ms=at_ms, last_ms=at_ms)], at_ms)
        assert bool(book.acts(at_ms)) == (hours < 6)


def test_an_end_that_names_an_earlier_begin_ends_what_began_before_it() -> None:
    """Two Prometheus tell one Alertmanager: it merges their alerts, and goes on with the earlier `startsAt`."""
    book = Book().after([notice(version_ms=NOW_MS + 7_000)], NOW_MS + 8_000)
    repeated = book.after([notice(version_ms=NOW_MS, last_ms=NOW_MS + 9 * MINUTE_MS)], NOW_MS + 9 * MINUTE_MS)
    assert repeated.acts(NOW_MS + 18 * MINUTE_MS)
    assert repeated.acts(NOW_MS + 9 * MINUTE_MS)[0].id == book.acts(NOW_MS + 8_000)[0].id
    over = repeated.after([notice(version_ms=NOW_MS, ended_ms=NOW_MS + 10 * MINUTE_MS)], NOW_MS + 10 * MINUTE_MS)
    assert not over.acts(NOW_MS + 10 * MINUTE_MS)
    anew = over.after([notice(version_ms=NOW_MS + 11 * MINUTE_MS)], NOW_MS + 11 * MINUTE_MS)
    assert anew.acts(NOW_MS + 11 * MINUTE_MS)


def test_an_alert_that_fires_again_from_the_same_begin_acts_once_that_is_no_late_delivery() -> None:
    book = Book().after([notice(ended_ms=NOW_MS, end_heard_ms=NOW_MS)], NOW_MS)
    late = book.after([notice(last_ms=NOW_MS + AGAIN_MS - 1)], NOW_MS + AGAIN_MS)
    assert not late.acts(NOW_MS + AGAIN_MS)
    again = late.after([notice(last_ms=NOW_MS + AGAIN_MS)], NOW_MS + AGAIN_MS)
    assert again.acts(NOW_MS + AGAIN_MS)
    ended = notice(ended_ms=NOW_MS, end_heard_ms=NOW_MS + AGAIN_MS, last_ms=NOW_MS + AGAIN_MS)
    assert not again.after([ended], NOW_MS + AGAIN_MS).acts(NOW_MS + AGAIN_MS)


def test_an_end_that_comes_late_does_not_end_what_began_after_it() -> None:
    book = Book().after([notice(version_ms=NOW_MS + 7_000)], NOW_MS + 8_000)
    assert book.after([notice(version_ms=NOW_MS, ended_ms=NOW_MS + 6_999)], NOW_MS + 8_000).acts(NOW_MS + 8_000)


def test_an_alert_without_a_time_is_what_its_key_is_about() -> None:
    book = Book().after([notice(version_ms=0)], NOW_MS)
    [act] = book.acts(NOW_MS)
    again = book.after([notice(version_ms=0, first_ms=NOW_MS + 5, last_ms=NOW_MS + 5)], NOW_MS + 5)
    assert [one.id for one in again.acts(NOW_MS + 5)] == [act.id]
    over = again.after([notice(version_ms=0, over=True)], NOW_MS + 6)
    assert not over.acts(NOW_MS + 6)
    assert over.after([notice(version_ms=0, first_ms=NOW_MS + 9, last_ms=NOW_MS + 9)], NOW_MS + 9).acts(NOW_MS + 9)


def window(from_ms: int, until_ms: int | None, heard_ms: int = NOW_MS, **changes: Any) -> Notice:
    return notice(version_ms=0, first_ms=heard_ms, last_ms=heard_ms, from_ms=from_ms, until_ms=until_ms, **changes)


def test_a_window_acts_from_its_begin_to_its_end() -> None:
    book = Book().after([window(NOW_MS + 1_000, NOW_MS + 2_000)], NOW_MS)
    assert [bool(book.acts(NOW_MS + at)) for at in (999, 1_000, 1_999, 2_000)] == [False, True, True, False]


def test_a_window_that_is_moved_is_the_same_act_and_one_that_is_told_again_changes_nothing() -> None:
    book = Book().after([window(NOW_MS, NOW_MS + 5_000)], NOW_MS)
    [act] = book.acts(NOW_MS)
    told_again = book.after([window(NOW_MS, NOW_MS + 5_000, NOW_MS + 10)], NOW_MS + 10)
    assert told_again.acts(NOW_MS + 10) == [act]
    [moved] = book.after([window(NOW_MS, NOW_MS + 9_000, NOW_MS + 10)], NOW_MS + 10).acts(NOW_MS + 10)
    assert (moved.id, moved.until_ms) == (act.id, NOW_MS + 9_000)


def test_a_cancelled_window_stays_away_with_another_end_and_comes_back_at_another_time() -> None:
    book = Book().after([window(NOW_MS, None)], NOW_MS)
    [act] = book.acts(NOW_MS)
    known = book.notices["alert:1"]
    book = book.after([replace(known, cancelled={act.id: "cli:ann"})], NOW_MS)
    longer = book.after([window(NOW_MS, NOW_MS + 9_000, NOW_MS + 10)], NOW_MS + 10)
    assert not longer.acts(NOW_MS + 10)
    moved = longer.after([window(NOW_MS + 5, NOW_MS + 9_000, NOW_MS + 20)], NOW_MS + 20)
    assert moved.acts(NOW_MS + 20)


def test_a_window_without_an_end_lasts_as_its_rule_says() -> None:
    book = Book().after([window(NOW_MS, None)], NOW_MS)
    assert book.acts(NOW_MS + 10 * MINUTE_MS - 1)
    assert not book.acts(NOW_MS + 10 * MINUTE_MS)


def test_what_is_over_is_remembered_for_an_hour_and_what_is_to_come_until_it_came() -> None:
    book = Book().after([notice(over=True), replace(window(NOW_MS + 9 * KEPT_MS, None), key="annotation:1")], NOW_MS)
    assert set(book.after([], NOW_MS + KEPT_MS).notices) == {"alert:1", "annotation:1"}
    assert set(book.after([], NOW_MS + KEPT_MS + 1).notices) == {"annotation:1"}


def test_a_book_is_bounded_and_acts_in_force_stay() -> None:
    first = Book().after([notice()], NOW_MS)
    flood = [replace(notice(over=True), key=f"alert:x{n}") for n in range(MOST_NOTICES + 10)]
    after = first.after(flood, NOW_MS)
    assert len(after.notices) == MOST_NOTICES
    assert after.acts(NOW_MS)


def test_labels_tell_alerts_apart_whatever_their_order() -> None:
    assert label_hash({"a": "1", "b": "2"}) == label_hash({"b": "2", "a": "1"})
    assert label_hash({"a": "1"}) != label_hash({"a": "2"})
