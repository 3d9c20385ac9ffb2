"""Turns follow weights, and pauses earn nothing."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from tidegate.domain.flow.fair import MOST_REMEMBERED, Turns
from tidegate.domain.flow.level import Level
from tidegate.domain.flow.waiting import Waiting


def waiting(class_name: str = "a", user: str = "", *, weight: float = 1.0, cost: float = 1.0) -> Waiting:
    return Waiting(class_name=class_name, user=user, weight=weight, cost=cost)


def serve(level: Level) -> Waiting:
    turn = level.take()
    level.served(turn)
    return turn.waiting


def test_classes_that_always_wait_share_by_weight() -> None:
    level = Level()
    for name, weight in (("gold", 3.0), ("silver", 1.0)):
        for _ in range(400):
            level.push(waiting(name, weight=weight))
    assert Counter(serve(level).class_name for _ in range(200)) == {"gold": 150, "silver": 50}


def test_work_is_shared_not_requests() -> None:
    level = Level()
    for name, cost in (("long", 10.0), ("short", 1.0)):
        for _ in range(400):
            level.push(waiting(name, cost=cost))
    served = Counter(serve(level).class_name for _ in range(220))
    assert served == {"long": 20, "short": 200}


def test_users_of_a_class_share_evenly_however_much_one_sends() -> None:
    level = Level()
    for _ in range(50):
        level.push(waiting(user="loud"))
    level.push(waiting(user="quiet"))
    level.push(waiting(user="quiet"))
    assert Counter(serve(level).user for _ in range(4)) == {"loud": 2, "quiet": 2}


def test_requests_of_one_user_keep_their_order() -> None:
    level = Level()
    sent = [waiting() for _ in range(5)]
    for one in sent:
        level.push(one)
    assert [serve(level) for _ in range(5)] == sent


def test_a_class_that_was_away_does_not_catch_up() -> None:
    level = Level()
    for _ in range(300):
        level.push(waiting("a"))
    for _ in range(100):
        serve(level)
    for _ in range(100):
        level.push(waiting("b"))
    assert Counter(serve(level).class_name for _ in range(100)) == {"a": 50, "b": 50}


def test_what_is_put_back_is_first_again_and_uncharged() -> None:
    level = Level()
    sent = [waiting("a", "x"), waiting("a", "y"), waiting("b", "x"), waiting("a", "x")]
    for one in sent:
        level.push(one)
    first = [level.take() for _ in range(4)]
    assert len(level) == 0
    for turn in reversed(first):
        level.back(turn)
    assert [serve(level) for _ in range(4)] == [turn.waiting for turn in first]


def test_keys_without_work_are_not_remembered_for_ever() -> None:
    turns = Turns()
    for number in range(3 * MOST_REMEMBERED):
        turns.join(str(number))
        turns.move(str(number), 1.0)
        turns.leave(str(number))
    assert len(turns._idle) <= MOST_REMEMBERED


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("xyz"), st.integers(1, 50)), max_size=60), st.data())
def test_taking_and_putting_back_loses_nothing_and_changes_no_order(
    sent: list[tuple[str, str, int]], data: st.DataObject
) -> None:
    plain, tried = Level(), Level()
    pairs = [(waiting(c, u, cost=k), waiting(c, u, cost=k)) for c, u, k in sent]
    partner = {id(one): other for one, other in pairs}
    for one, other in pairs:
        plain.push(one)
        tried.push(other)
    for _ in range(len(sent)):
        taken = [tried.take() for _ in range(data.draw(st.integers(0, len(tried))))]
        for turn in reversed(taken):
            tried.back(turn)
        assert partner[id(serve(plain))] is serve(tried)
    assert len(tried) == 0
