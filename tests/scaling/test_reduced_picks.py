"""In pick clusters a reduced replica is named for its part of the requests, however idle it looks."""

from __future__ import annotations

from collections import Counter

import pytest

from ext_proc.feed import parts_of
from tests.ext_proc.parts import Picker, sample, topology
from tidegate.domain.actions.act import Act, Deed, Kind
from tidegate.domain.actions.effects import summed
from tidegate.domain.pick.verdict import Verdict
from tidegate.domain.pick.work import Work

ADDRESSES = [f"10.0.0.{number}:8000" for number in (1, 2, 3, 4)]
WORK = Work(prompt_tokens=100, output_tokens=50)


@pytest.fixture
def picker() -> Picker:
    """Four replicas, of which the last three are busy: by cost alone the first is always named."""
    picker = Picker(topology(4))
    fields = [{}, *({"running": 20, "waiting": 50} for _ in range(3))]
    picker.view.sampled([sample(one, **more) for one, more in zip(ADDRESSES, fields, strict=True)], picker.now_ms)
    return picker


def named(picker: Picker, picks: int) -> Counter[str]:
    """How often each was named first; nothing is dispatched, so that costs stay as they are."""
    found: Counter[str] = Counter()
    for _ in range(picks):
        pick = picker.view.cluster("phi-3").picker.pick(WORK, picker.now_ms)
        found[pick.chosen[0].address] += 1
    return found


def test_without_a_reduction_the_idle_one_gets_everything(picker: Picker) -> None:
    assert named(picker, 40) == {ADDRESSES[0]: 40}


@pytest.mark.parametrize("part", [0.05, 0.25, 0.6])
def test_a_reduced_replica_gets_its_part_of_an_equal_share_and_no_more(picker: Picker, part: float) -> None:
    picker.view.reduced({"phi-3": {ADDRESSES[0]: part}})
    picks = 800
    assert named(picker, picks)[ADDRESSES[0]] == pytest.approx(part * picks / 4, abs=1)


def test_it_is_no_second_choice_of_others_either(picker: Picker) -> None:
    picker.view.reduced({"phi-3": {ADDRESSES[0]: 0.05}})
    pick = picker.view.cluster("phi-3").picker.pick(WORK, picker.now_ms)
    assert ADDRESSES[0] not in {one.address for one in pick.chosen}


def test_the_end_of_a_reduction_counts_from_the_next_pick_on(picker: Picker) -> None:
    picker.view.reduced({"phi-3": {ADDRESSES[0]: 0.05}})
    assert named(picker, 10)[ADDRESSES[0]] == 0
    picker.view.reduced({})
    assert named(picker, 10)[ADDRESSES[0]] == 10


def test_where_all_are_reduced_all_are_named(picker: Picker) -> None:
    picker.view.reduced({"phi-3": dict.fromkeys(ADDRESSES, 0.05)})
    assert named(picker, 10).total() == 10


def test_a_reduced_replica_takes_what_finds_no_room_elsewhere(picker: Picker) -> None:
    full = {"kv_capacity_tokens": 10_000, "kv_used_ratio": 0.999, "running": 1, "waiting": 0}
    fields = [{"kv_capacity_tokens": 10_000, "kv_used_ratio": 0.0}, *(full for _ in range(3))]
    picker.view.sampled([sample(one, **more) for one, more in zip(ADDRESSES, fields, strict=True)], picker.now_ms)
    picker.view.reduced({"phi-3": {ADDRESSES[0]: 0.05}})
    pick = picker.view.cluster("phi-3").picker.pick(WORK, picker.now_ms)
    assert (pick.verdict, pick.chosen[0].address) == (Verdict.CHOSEN, ADDRESSES[0])


def test_acts_say_who_is_reduced() -> None:
    deed = Deed(kind=Kind.REDUCE, cluster="phi-3", replica=ADDRESSES[0], ratio=0.25)
    effects = summed([Act(id="x", deed=deed, rule="self-healing", cause="faults", since_ms=1)])
    assert parts_of(effects) == {"phi-3": {ADDRESSES[0]: 0.25}}


def test_a_request_that_finds_no_replica_is_told_with_its_time(picker: Picker) -> None:
    assert picker.view.unserved() == {}
    picker.view.registered([], picker.now_ms)
    picker.view.cluster("empty").pick(WORK, picker.now_ms)
    assert picker.view.unserved() == {"empty": picker.now_ms}
