"""What is done over in part equals what is built from the ground."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.xds.worlds import CHAT, DESIRED, IMAGES, endpoint
from xds_server import assembly
from xds_server.assembly import Assembler
from xds_server.consistency import InconsistentResources
from xds_server.desired import Desired, DesiredEndpoint
from xds_server.resources import build
from xds_server.snapshot import snapshot_of
from xds_server.type_urls import CLUSTER, ENDPOINT, LISTENER, ROUTE
from xds_server.weights import LEAST_INTERVAL_MS, SETTLE_MS, Pace

weights = st.one_of(st.none(), st.integers(0, 1000))
endpoints = st.lists(
    st.builds(lambda n, w, t: endpoint(n, w, takes_traffic=t), st.integers(1, 4), weights, st.booleans()),
    unique_by=lambda e: e.address,
    max_size=4,
).map(tuple)


def world(chat: tuple[DesiredEndpoint, ...], images: tuple[DesiredEndpoint, ...] = ()) -> Desired:
    return replace(DESIRED, clusters=(replace(CHAT, endpoints=chat), replace(IMAGES, endpoints=images)))


@given(st.lists(st.tuples(endpoints, endpoints), min_size=2, max_size=6))
def test_any_sequence_gives_what_building_from_the_ground_gives(sequence: list[Any]) -> None:
    assembler = Assembler()
    for chat, images in sequence:
        desired = world(chat, images)
        assert assembler.snapshot(desired).types == snapshot_of(build(desired)).types


@given(st.lists(st.lists(st.integers(1, 1000), min_size=3, max_size=3), min_size=2, max_size=6))
def test_any_sequence_of_weights_gives_what_building_from_the_ground_gives(sequence: list[list[int]]) -> None:
    assembler = Assembler()
    for chat in sequence:
        desired = world(tuple(endpoint(n, w) for n, w in enumerate(chat, 1)))
        assert assembler.snapshot(desired).types == snapshot_of(build(desired)).types


def test_a_weight_builds_nothing_and_leaves_other_assignments_the_same_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    assembler = Assembler()
    before = assembler.snapshot(world((endpoint(1, 1),), (endpoint(2, 2),)))
    monkeypatch.setattr(assembly, "build", None)
    after = assembler.snapshot(world((endpoint(1, 7),), (endpoint(2, 2),)))
    assert after.changed_types(before) == (ENDPOINT,)
    assert after.resources(ENDPOINT)["images"] is before.resources(ENDPOINT)["images"]
    for type_url in (CLUSTER, LISTENER, ROUTE):
        assert after.types[type_url] is before.types[type_url]


def test_a_bad_candidate_leaves_the_last_good_state(monkeypatch: pytest.MonkeyPatch) -> None:
    assembler = Assembler()
    good = assembler.snapshot(world((endpoint(1, 1),)))
    with pytest.raises(InconsistentResources):
        assembler.snapshot(replace(world((endpoint(1, 1),)), listen_host="no-ip"))
    assert assembler.snapshot(world((endpoint(1, 1),))).types == good.types


def pace(*served: int, at_ms: int = 0) -> tuple[Pace, Desired]:
    one = Pace()
    one.took(at_ms)
    return one, world(tuple(endpoint(n, w) for n, w in enumerate(served, 1)))


@pytest.mark.parametrize(
    ("held_ms", "weight", "now_ms"),
    [
        (1, 900, LEAST_INTERVAL_MS - 1),
        (0, 900, LEAST_INTERVAL_MS),
        (1, 101, SETTLE_MS - 1),
        (0, 101, SETTLE_MS),
        (0, 0, 1),
        (0, 900, -1),
    ],
    ids=["too soon", "soon enough", "too small", "small, but it has settled", "a drain", "a clock set back"],
)
def test_fact_45_a_weight_is_pushed_at_most_five_times_a_second(held_ms: int, weight: int, now_ms: int) -> None:
    one, served = pace(100)
    assert one.held_ms(served, world((endpoint(1, weight),)), now_ms) == held_ms


@pytest.mark.parametrize("weight", [101, 900])
def test_an_operators_weight_waits_for_no_more_than_the_pace(weight: int) -> None:
    one, served = pace(100)
    assert one.held_ms(served, world((endpoint(1, weight),)), 50, ordered=True) == LEAST_INTERVAL_MS - 50


def test_a_replica_that_comes_never_waits() -> None:
    one, served = pace(100)
    assert one.held_ms(served, world((endpoint(1, 100), endpoint(2, 1))), 1) == 0


def test_the_first_state_never_waits() -> None:
    assert Pace().held_ms(None, DESIRED, 0) == 0
