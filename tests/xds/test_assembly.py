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


def pace(*served: int, images: int = 1) -> tuple[Pace, Desired]:
    """At time 0 both clusters were pushed."""
    one, state = Pace(), world(tuple(endpoint(n, w) for n, w in enumerate(served, 1)), (endpoint(9, images),))
    one.took(None, state, 0)
    return one, state


def other(*chat: int, images: int = 1) -> Desired:
    return pace(*chat, images=images)[1]


@pytest.mark.parametrize(
    ("held_ms", "weight", "now_ms"),
    [
        (1, 900, LEAST_INTERVAL_MS - 1),
        (None, 900, LEAST_INTERVAL_MS),
        (1, 101, SETTLE_MS - 1),
        (None, 101, SETTLE_MS),
        (None, 0, 1),
        (None, 900, -1),
    ],
    ids=["too soon", "soon enough", "too small", "small, but it has settled", "a drain", "a clock set back"],
)
def test_fact_45_a_weight_is_pushed_at_most_five_times_a_second(held_ms: int | None, weight: int, now_ms: int) -> None:
    one, served = pace(100)
    wanted = other(weight)
    assert one.due(served, wanted, now_ms) == (wanted if held_ms is None else served, held_ms)


@pytest.mark.parametrize("weight", [101, 900])
def test_an_operators_weight_waits_for_no_more_than_the_pace(weight: int) -> None:
    one, served = pace(100)
    assert one.due(served, other(weight), 50, ordered=True) == (served, LEAST_INTERVAL_MS - 50)


def test_a_cluster_waits_for_its_own_last_push_and_for_no_other() -> None:
    one, served = pace(100, images=500)
    moved = other(100, images=900)
    one.took(served, moved, 300)
    wanted = other(700, images=200)
    assert one.due(moved, wanted, 310) == (other(700, images=900), LEAST_INTERVAL_MS - 10)


@given(st.lists(st.tuples(st.integers(1, 60), st.integers(1, 1000), st.integers(1, 1000)), max_size=40))
def test_no_cluster_is_pushed_twice_within_the_pace_and_none_is_forgotten(
    steps: list[tuple[int, int, int]],
) -> None:
    one, served = pace(500, images=500)
    wanted, now_ms, pushed = served, 0, [0, 0]
    for wait_ms, chat, images in [*steps, (SETTLE_MS, 7, 7), (SETTLE_MS, 7, 7)]:
        now_ms, wanted = now_ms + wait_ms, other(chat, images=images)
        due, _ = one.due(served, wanted, now_ms)
        for number, (was, becomes) in enumerate(zip(served.clusters, due.clusters, strict=True)):
            if was != becomes:
                assert now_ms - pushed[number] >= LEAST_INTERVAL_MS
                pushed[number] = now_ms
        one.took(served, due, now_ms)
        served = due
    assert served == wanted


@pytest.mark.parametrize(("before", "after"), [(100, 0), (0, 100)], ids=["a drain", "its end"])
def test_a_replica_that_stops_or_starts_serving_beside_others_never_waits(before: int, after: int) -> None:
    one, served = pace(100, before)
    wanted = other(100, after)
    assert one.due(served, wanted, 1) == (wanted, None)


def test_a_replica_that_comes_never_waits() -> None:
    one, served = pace(100)
    wanted = world((endpoint(1, 100), endpoint(2, 1)), (endpoint(9, 1),))
    assert one.due(served, wanted, 1) == (wanted, None)


def test_the_first_state_never_waits() -> None:
    assert Pace().due(None, DESIRED, 0) == (DESIRED, None)
