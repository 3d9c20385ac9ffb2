"""A queue is bounded, strict between priorities, fair within one; nobody starves and nobody blocks for ever."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.domain.flow.queue import FlowQueue
from tidegate.domain.flow.settings import FlowSettings
from tidegate.domain.flow.waiting import Waiting

NOW = 1_800_000_000_000


def waiting(class_name: str = "a", priority: int = 0, **fields: Any) -> Waiting:
    return Waiting(**{"class_name": class_name, "priority": priority, "deadline_ms": NOW + 1000, **fields})


def queue(**settings: Any) -> FlowQueue[Waiting]:
    return FlowQueue(FlowSettings(**settings))


def fill(one: FlowQueue[Waiting], *those: Waiting) -> None:
    for each in those:
        assert one.offer(each).waits


def room_for(count: int) -> Any:
    left = iter([True] * count)
    return lambda _: next(left, False)


def test_the_lowest_number_goes_first_whatever_came_before() -> None:
    one = queue()
    low, normal, high = waiting(priority=5), waiting(), waiting(priority=-5)
    fill(one, low, normal, high)
    assert one.place(room_for(2), NOW) == [high, normal]
    assert list(one) == [low]


def test_a_full_queue_takes_no_more_of_the_same() -> None:
    one = queue(max_requests=2)
    fill(one, waiting(), waiting())
    assert not one.offer(waiting()).waits
    assert not one.offer(waiting(priority=1)).waits
    assert len(one) == 2


def test_an_urgent_arrival_displaces_the_newest_of_the_latest_priority() -> None:
    one = queue(max_requests=3)
    old, new, normal = waiting(priority=9), waiting(priority=9), waiting()
    fill(one, old, new, normal)
    assert one.offer(waiting(priority=-1)).displaced == (new,)
    assert one.offer(waiting(priority=-1)).displaced == (old,)
    assert one.offer(waiting(priority=-1)).displaced == (normal,)
    assert not one.offer(waiting(priority=-1)).waits


def test_as_many_give_way_as_the_bytes_need_and_none_when_that_is_not_enough() -> None:
    one = queue(max_bytes=100)
    small = [waiting(priority=1, size_bytes=30) for _ in range(3)]
    fill(one, *small)
    assert not one.offer(waiting(size_bytes=101)).waits
    assert (len(one), one.size_bytes) == (3, 90)
    assert one.offer(waiting(size_bytes=60)).displaced == (small[2], small[1])
    assert one.size_bytes == 90


def test_a_class_with_more_than_its_share_of_a_full_queue_gives_way() -> None:
    one = queue(max_requests=40)
    for _ in range(200):
        one.offer(waiting("silver", weight=1.0))
    for _ in range(200):
        one.offer(waiting("gold", weight=3.0))
        one.offer(waiting("silver", weight=1.0))
    assert Counter(each.class_name for each in one) == {"gold": 30, "silver": 10}


def test_a_user_with_more_than_its_share_of_a_full_queue_gives_way() -> None:
    one = queue(max_requests=10)
    for _ in range(50):
        one.offer(waiting(user="loud"))
    for _ in range(50):
        one.offer(waiting(user="quiet"))
    assert Counter(each.user for each in one) == {"loud": 5, "quiet": 5}


def test_a_large_one_lets_small_ones_pass_but_not_for_ever() -> None:
    one = queue(look_ahead=4, most_passed=3)
    large, *small = waiting(cost=100.0, user="x"), *(waiting(user="y") for _ in range(9))
    fill(one, large, *small)

    def fits(each: Waiting) -> bool:
        return each is not large

    assert one.place(fits, NOW) == small[:3]
    assert one.place(fits, NOW) == []
    assert one.place(lambda _: True, NOW)[0] is large


def test_nothing_of_a_later_priority_passes_one_that_was_passed_often() -> None:
    one = queue(most_passed=1)
    large = waiting(priority=-1)
    fill(one, large, waiting(), waiting())
    assert len(one.place(lambda each: each is not large, NOW)) == 1
    assert one.place(lambda each: each is not large, NOW) == []


def test_only_so_many_are_tried_behind_one_without_room() -> None:
    one = queue(look_ahead=2)
    fill(one, *(waiting() for _ in range(9)))
    tried: list[Waiting] = []

    def no_room(each: Waiting) -> bool:
        tried.append(each)
        return False

    assert one.place(no_room, NOW) == []
    assert len(tried) == 3
    assert len(one) == 9


def test_those_whose_deadline_has_come_leave() -> None:
    one = queue()
    early, late = waiting(deadline_ms=NOW), waiting(deadline_ms=NOW + 1)
    fill(one, early, late)
    assert one.next_deadline_ms() == NOW
    assert one.expired(NOW) == [early]
    assert one.expired(NOW + 1) == [late]
    assert one.next_deadline_ms() is None


def test_who_leaves_frees_the_place_and_the_bytes() -> None:
    one = queue(max_requests=1)
    first = waiting(size_bytes=7)
    fill(one, first)
    one.leave(first)
    assert (len(one), one.size_bytes) == (0, 0)
    with pytest.raises(KeyError):
        one.leave(first)
    assert one.offer(waiting()).waits


@pytest.mark.parametrize(("ahead", "seconds"), [(0, 1), (9, 2), (99, 20)])
def test_retry_after_is_what_those_ahead_take_at_the_rate_of_now(ahead: int, seconds: int) -> None:
    one = queue()
    fill(one, *(waiting() for _ in range(10 + ahead)))
    one.place(room_for(5), NOW)
    one.place(room_for(5), NOW + 2000)
    assert one.retry_after_seconds(0, NOW + 2000) == seconds
    assert one.retry_after_seconds(-1, NOW + 2000) == 1


def test_retry_after_of_a_queue_that_does_not_move_is_the_time_limit() -> None:
    one = queue(timeout_ms=7000)
    fill(one, waiting())
    assert one.retry_after_seconds(0, NOW) == 7


def test_a_callback_that_fails_leaves_the_queue_whole() -> None:
    one = queue()
    fill(one, waiting(), waiting())

    def fails(_: Waiting) -> bool:
        raise RuntimeError("a bug")

    with pytest.raises(RuntimeError):
        one.place(fails, NOW)
    assert len(one.place(lambda _: True, NOW)) == 2


ARRIVALS = st.lists(
    st.tuples(st.sampled_from("ab"), st.integers(-2, 2), st.sampled_from("xy"), st.integers(0, 40), st.booleans()),
    max_size=80,
)


@given(ARRIVALS, st.integers(0, 12), st.integers(0, 150))
def test_nobody_is_lost_and_the_bounds_hold(
    arrivals: list[tuple[str, int, str, int, bool]], most: int, most_bytes: int
) -> None:
    one = queue(max_requests=most, max_bytes=most_bytes)
    outcome: Counter[str] = Counter()
    for class_name, priority, user, size, serve in arrivals:
        offer = one.offer(waiting(class_name, priority, user=user, size_bytes=size))
        outcome["refused"] += not offer.waits
        outcome["displaced"] += len(offer.displaced)
        if serve:
            outcome["placed"] += len(one.place(room_for(1), NOW))
        assert len(one) <= most
        assert one.size_bytes == sum(each.size_bytes for each in one) <= most_bytes
    outcome["placed"] += len(one.place(lambda _: True, NOW))
    assert outcome.total() == len(arrivals)
    assert (len(one), one.size_bytes) == (0, 0)
