"""What acts add up to: the safer one wins, whatever the order in which they came."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from tests.actions.acts import NOW_MS, act, acts
from tidegate.domain.actions.act import Act
from tidegate.domain.actions.effects import NONE, Reduced, Scale, summed


@given(st.lists(acts, max_size=8, unique_by=lambda one: one.id), st.randoms())
def test_the_order_of_acts_does_not_matter(some: list[Act], rng: random.Random) -> None:
    shuffled = rng.sample(some, len(some))
    assert summed(some) == summed(shuffled)


@given(st.lists(acts, max_size=8, unique_by=lambda one: one.id))
def test_dry_runs_do_nothing(some: list[Act]) -> None:
    assert summed(some) == summed([one for one in some if not one.dry_run])


@given(st.lists(acts, max_size=8, unique_by=lambda one: one.id), acts)
def test_one_more_act_never_makes_the_effects_laxer(some: list[Act], more: Act) -> None:
    before, after = summed(some), summed([*some, more])
    assert before.frozen <= after.frozen
    assert set(before.holds) <= set(after.holds)
    assert all(after.retries[name] <= most for name, most in before.retries.items())
    for cluster, replicas in before.reduced.items():
        assert all(after.reduced[cluster][one].ratio <= was.ratio for one, was in replicas.items())


def test_the_fewest_retries_and_the_smallest_ratio_win() -> None:
    one = summed(
        [
            act(ident="a", cluster="phi-3", to=2),
            act(ident="b", cluster="phi-3", to=0),
            act("reduce", ident="c", cluster="phi-3", replica="10.0.0.5:8000", ratio=0.5),
            act("reduce", ident="d", cluster="phi-3", replica="10.0.0.5:8000", ratio=0.0),
        ]
    )
    assert one.retries == {"phi-3": 0}
    assert {"phi-3": {"10.0.0.5:8000": Reduced(0.0, "d")}} == one.reduced


def test_the_most_replicas_win() -> None:
    some = [act("scale", ident="a", cluster="phi-3", by=1), act("scale", ident="b", cluster="phi-3", by=2)]
    assert {"phi-3": Scale(None, 2, "a")} == summed(some).scale
    assert [Scale(None, 2, "a").of(3), Scale(3, 0, "a").of(7)] == [5, 3]
    assert Scale(4, 2, "a").of(7) == 9
    assert Scale(None, -2, "a").of(1) == 0


def test_the_split_of_the_act_that_began_first_stays() -> None:
    first = act("split", ident="z", model="phi", parts={"v1": 1000, "v2": 0})
    later = act("split", ident="a", since_ms=NOW_MS + 1, model="phi", parts={"v1": 0, "v2": 1000})
    assert summed([later, first]).splits == {"phi": {"v1": 1000, "v2": 0}}


def test_a_hold_names_whom_it_holds() -> None:
    everywhere = summed([act("hold", less_urgent_than=0)])
    assert everywhere.held("phi-3", "phi", "default", 1) is not None
    assert everywhere.held("phi-3", "phi", "default", 0) is None
    here = summed([act("hold", cluster="phi-3", classes=("batch",))])
    assert here.held("phi-3", "phi", "batch", -100) is not None
    assert here.held("phi-3", "phi", "chat", 100) is None
    assert here.held("llama-3", "llama", "batch", 0) is None
    assert NONE.held("phi-3", "phi", "batch", 100) is None
