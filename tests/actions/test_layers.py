"""What acts make of decisions: orders stay, frozen weights stay, nobody empties a cluster."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.actions.acts import act
from tidegate.domain.actions.effects import Reduced, summed
from tidegate.domain.actions.layers import acted, retries_of, with_splits
from tidegate.domain.load import UNKNOWN_LOAD
from tidegate.domain.memory import Memory
from tidegate.domain.weights import Decision

ONE, TWO = "10.0.0.5:8000", "10.0.0.6:8000"


def decision(address: str = ONE, weight: int = 400, **changes: Any) -> Decision:
    automatic = changes.pop("automatic", weight)
    ramping = changes.pop("ramping_seconds", None)
    memory = Memory(at_ms=0, weight=weight, automatic=automatic, share=0.4, ramping_seconds=ramping)
    known = {"pinned": None, "drained": None, "status": None, "age_ms": 0, "reason": "load", **changes}
    return Decision(
        address=address, weight=weight, automatic=automatic, capacity=1.0, load=UNKNOWN_LOAD, memory=memory, **known
    )


def weights(*args: Any) -> dict[str, int]:
    return {one.decision.address: one.decision.weight for one in acted(*args)}


def test_a_reduced_replica_gets_a_part_and_says_by_which_act() -> None:
    [one, two] = acted([decision(), decision(TWO)], {ONE: Reduced(0.25, "3f9c")}, None, {})
    assert (one.decision.weight, two.decision.weight) == (100, 400)
    assert (one.act, one.decision.memory.weight) == ("3f9c", 100)
    assert one.decision.reason == "reduced to × 0.25 by act 3f9c; load"


def test_orders_and_replicas_that_cannot_serve_are_as_decided() -> None:
    pinned, drained = decision(weight=300, pinned=300), decision(TWO, weight=0, drained="kernel", automatic=400)
    gone = decision("10.0.0.7:8000", weight=0)
    reduced = {one: Reduced(0.0, "3f9c") for one in (ONE, TWO, "10.0.0.7:8000")}
    assert weights([pinned, drained, gone], reduced, {ONE: 77, TWO: 77, "10.0.0.7:8000": 77}, {}) == {
        ONE: 300, TWO: 0, "10.0.0.7:8000": 0,
    }  # fmt: skip


def test_acts_leave_somebody_to_serve() -> None:
    both = {ONE: Reduced(0.0, "a"), TWO: Reduced(0.0, "b")}
    assert weights([decision(), decision(TWO)], both, None, {}) == {ONE: 1, TWO: 1}
    assert weights([decision(), decision(TWO, weight=0)], both, None, {}) == {ONE: 1, TWO: 0}
    assert weights([decision(), decision(TWO)], {ONE: Reduced(0.0, "a")}, None, {}) == {ONE: 0, TWO: 400}


def test_a_frozen_weight_stays_where_it_was_and_does_not_compound_with_a_reduction() -> None:
    [began] = acted([decision(weight=390)], {}, {}, {ONE: 412})
    assert (began.decision.weight, began.frozen) == (412, 412)
    [later] = acted([decision(weight=100)], {ONE: Reduced(0.5, "a")}, {ONE: 412}, {ONE: 100})
    assert (later.decision.weight, later.frozen) == (206, 412)


def test_a_replica_that_ramps_up_goes_on_while_weights_are_frozen() -> None:
    assert weights([decision(weight=60, ramping_seconds=2.0)], {}, {ONE: 40}, {ONE: 40}) == {ONE: 60}


def test_one_that_was_never_decided_on_begins_at_its_automatic_weight() -> None:
    assert weights([decision(weight=250)], {}, {}, {}) == {ONE: 250}


def test_without_acts_decisions_are_what_they_were() -> None:
    one = decision()
    assert [layer.decision for layer in acted([one], {}, None, {})] == [one]


def test_retries_are_at_most_what_acts_say_unless_an_operator_typed_them() -> None:
    effects = summed([act(cluster="phi-3", to=0)])
    assert [retries_of("phi-3", 2, effects, {}), retries_of("llama", 2, effects, {})] == [0, 2]
    assert retries_of("phi-3", 3, effects, {"phi-3": {"envoy.retries": "3"}}) == 3
    assert retries_of("phi-3", 3, effects, {"": {"envoy.retries": "3"}}) == 3
    assert retries_of("phi-3", 1, summed([act(cluster="phi-3", to=4)]), {}) == 1


def test_a_split_of_an_act_gives_way_to_one_that_an_operator_typed() -> None:
    effects = summed([act("split", model="phi", parts={"v1": 1000, "v2": 0})])
    assert with_splits({}, effects, ["phi"]) == {"split:phi": "v1=1000 v2=0"}
    assert with_splits({"split:phi": "v1=0 v2=1000"}, effects, ["phi"]) == {"split:phi": "v1=0 v2=1000"}
    assert with_splits({}, effects, ["other"]) == {}
    assert replace(effects, splits={}) != effects
