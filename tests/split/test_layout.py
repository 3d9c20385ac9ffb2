"""Who holds which slot, and who moves when shares change."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.domain.split import Parts, drawn, layout, point, slot_of

NAMES = "abcdefgh"


@st.composite
def shares(draw: st.DrawFn, least: int = 1, most: int = 6) -> Parts:
    """Versions whose shares sum to 1000."""
    count = draw(st.integers(least, most))
    cuts = sorted(draw(st.lists(st.integers(0, 1000), min_size=count - 1, max_size=count - 1)))
    ends = [0, *cuts, 1000]
    return tuple((name, high - low) for name, low, high in zip(NAMES[:count], ends[:-1], ends[1:], strict=True))


def moved(before: Parts, after: Parts) -> Counter[tuple[str, str]]:
    """How many slots went from which version to which."""
    pairs = zip(layout(before), layout(after), strict=True)
    return Counter((one, other) for one, other in pairs if one != other)


@given(shares())
def test_each_version_holds_as_many_slots_as_its_share_has_parts(parts: Parts) -> None:
    held = Counter(layout(parts))
    assert {name: share for name, share in parts if share} == dict(held)


@given(st.integers(0, 1000), st.integers(0, 1000))
def test_of_two_versions_the_moved_slice_alone_moves(before: int, after: int) -> None:
    change = moved((("a", 1000 - before), ("b", before)), (("a", 1000 - after), ("b", after)))
    way = ("a", "b") if after > before else ("b", "a")
    assert dict(change) == ({way: abs(after - before)} if after != before else {})


@st.composite
def at_home(draw: st.DrawFn) -> Parts:
    """A base and two to four others, none of which outgrew its home."""
    count = draw(st.integers(2, 4))
    home = 500 if count == 2 else 250
    others = [(name, draw(st.integers(0, home))) for name in NAMES[1 : count + 1]]
    return (("a", 1000 - sum(share for _, share in others)), *others)


@given(at_home(), st.data())
def test_in_its_home_a_version_that_grows_takes_from_the_base_alone(parts: Parts, data: st.DataObject) -> None:
    name, share = data.draw(st.sampled_from(parts[1:]))
    home = 500 if len(parts) == 3 else 250
    by = data.draw(st.integers(0, min(parts[0][1], home - share)))
    after = dict(parts) | {"a": parts[0][1] - by, name: share + by}
    assert dict(moved(parts, tuple(after.items()))) == ({("a", name): by} if by else {})


@given(st.integers(0, 250), st.integers(0, 250))
def test_a_version_that_comes_with_0_moves_nobody(second: int, third: int) -> None:
    parts = (("a", 1000 - second - third), ("b", second), ("c", third))
    assert layout((*parts, ("new", 0))) == layout(parts)


def test_a_version_at_0_keeps_its_home() -> None:
    with_zero, with_one = (("a", 990), ("b", 0), ("c", 10)), (("a", 980), ("b", 10), ("c", 10))
    assert dict(moved(with_zero, with_one)) == {("a", "b"): 10}


def test_shares_that_do_not_sum_to_1000_have_no_layout() -> None:
    with pytest.raises(ValueError, match="sum to 1000"):
        layout((("a", 999),))


def test_more_versions_than_homes_still_hold_their_shares() -> None:
    parts = tuple((f"v{number}", 1) for number in range(1000))
    assert Counter(layout(parts)) == Counter(dict(parts))


def test_numbers_and_slots_are_the_documented_ones() -> None:
    """A change of the hash would move every user of every split."""
    assert (point("alice", "phi-3"), point("", "")) == (5466816604699102073, 14144645293874801883)
    assert [slot_of(number) for number in (0, 2**64 - 1, 2**63)] == [0, 999, 500]
    assert slot_of(point("alice", "phi-3")) == 296


def test_a_salt_gives_every_user_another_number() -> None:
    users = [f"user-{number}" for number in range(2000)]
    same = sum(slot_of(point(user, "one")) == slot_of(point(user, "other")) for user in users)
    assert same < 15


@given(shares(1, 4), st.integers(0, 2**64 - 1))
def test_who_has_no_share_is_never_drawn(parts: Parts, number: int) -> None:
    assert dict(parts)[drawn(parts, number) or ""] > 0


def test_nothing_is_drawn_of_nothing() -> None:
    assert (drawn((), 5), drawn((("a", 0),), 5)) == (None, None)
