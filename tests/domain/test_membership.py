"""Who belongs to the fleet while agents, or the store, are silent."""

from __future__ import annotations

from tidegate.domain.membership import GRACE_MS, MOST_STEP_MS, Membership

ONE, TWO = ("chat", "a:1"), ("chat", "b:1")
NOW = 1_000_000_000


def heard(*places: tuple[str, str], at: int = NOW) -> list[tuple[str, str, int]]:
    return [(*place, at) for place in places]


def test_an_emptied_index_takes_nobody_away_however_long_it_stays_empty() -> None:
    known = Membership().after(heard(ONE, TWO), NOW)
    for step in range(1, 3 * GRACE_MS // MOST_STEP_MS):
        known = known.after([], NOW + step * MOST_STEP_MS)
    assert known.members == {ONE, TWO}


def test_silence_of_everybody_takes_nobody_away() -> None:
    known = Membership().after(heard(ONE, TWO), NOW)
    for step in range(1, 3 * GRACE_MS // MOST_STEP_MS):
        known = known.after(heard(ONE, TWO), NOW + step * MOST_STEP_MS)
    assert known.members == {ONE, TWO}


def test_one_that_alone_is_silent_goes_after_the_grace_and_does_not_come_back_by_its_old_sample() -> None:
    known = Membership().after(heard(ONE, TWO), NOW)
    steps = GRACE_MS // MOST_STEP_MS
    for step in range(1, steps + 20):
        at = NOW + step * MOST_STEP_MS
        known = known.after([*heard(ONE, at=at), *heard(TWO)], at)
        assert (TWO in known.members) is (step < steps)
    assert TWO in known.after([*heard(ONE, at=at), *heard(TWO, at=at + 1)], at + 1).members


def test_after_an_outage_longer_than_the_grace_the_first_agent_to_return_takes_no_other_away() -> None:
    known = Membership().after(heard(ONE, TWO), NOW)
    back = NOW + 10 * GRACE_MS
    assert known.after([*heard(ONE, at=back), *heard(TWO)], back).members == {ONE, TWO}


def test_a_start_takes_who_was_sampled_within_the_grace_of_the_newest_sample() -> None:
    old, older = heard(TWO, at=NOW - GRACE_MS + 1), heard(("chat", "c:1"), at=NOW - GRACE_MS)
    assert Membership().after([*heard(ONE), *old, *older], NOW + 10 * GRACE_MS).members == {ONE, TWO}


def test_who_left_on_purpose_goes_at_once() -> None:
    known = Membership().after(heard(ONE, TWO), NOW)
    assert known.after(heard(ONE), NOW, {TWO}).members == {ONE}
