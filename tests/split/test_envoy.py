"""Through a real Envoy: users keep their version while redis-cli moves shares, headers win, nobody gets 503."""

from __future__ import annotations

import json
import os
import signal

import pytest

from tests.conftest import wait_until
from tests.split.world import LATER, MODEL, World
from tidegate.domain.split import layout, point, slot_of

pytestmark = [pytest.mark.envoy, pytest.mark.redis]

USERS = [f"user-{number}" for number in range(60)]
FILE = ("stable", "canary", "empty")


def expected(**shares: int) -> list[str]:
    held = layout(tuple((name, shares.get(name, 0)) for name in FILE))
    return [held[slot_of(point(user, MODEL))] for user in USERS]


def test_0_permille_sends_exactly_none(world: World) -> None:
    before = world.metric("tidegate_ext_proc_split_requests_total", model=MODEL, version="canary")
    assert set(world.sides(USERS * 2)) == {"stable"}
    assert world.metric("tidegate_ext_proc_split_requests_total", model=MODEL, version="canary") == before


def test_redis_cli_moves_the_users_of_the_new_slice_alone_and_nobody_in_between(world: World) -> None:
    world.whole_split(stable=900, canary=100)
    few = world.sides(USERS)
    assert few == expected(stable=900, canary=100)
    world.whole_split(stable=600, canary=400)
    more = world.sides(USERS)
    assert more == expected(stable=600, canary=400)
    canaries = [{u for u, side in zip(USERS, sides, strict=True) if side == "canary"} for sides in (few, more)]
    assert canaries[0] < canaries[1]


def test_a_retry_stays_in_the_version(world: World) -> None:
    """A canary dies while nobody looks: whoever is sent there first is answered by the other one."""
    world.whole_split(stable=500, canary=500)
    before, agent = world.retries("canary"), world.up.pid("agent")
    assert agent is not None
    os.kill(agent, signal.SIGSTOP)
    try:
        world.engines.kill(world.second)
        assert world.sides(USERS) == expected(stable=500, canary=500)
        assert world.retries("canary") > before
    finally:
        world.start(world.second)
        os.kill(agent, signal.SIGCONT)


@pytest.mark.parametrize(
    "headers",
    [{"x_user_id": "alice"}, {"authorization": "Bearer sk-1"}, {"x_api_key": "k"}, {}],
    ids=["the header of the file", "authorization", "x-api-key", "address"],
)
def test_who_sends_no_user_is_known_by_what_else_it_sends(world: World, headers: dict[str, str]) -> None:
    world.whole_split(stable=500, canary=500)
    who = {"x_user_id": "alice", "authorization": "Bearer sk-1", "x_api_key": "k"}
    identity = next((who[name] for name in who if name in headers), "127.0.0.1")
    side = layout((("stable", 500), ("canary", 500), ("empty", 0)))[slot_of(point(identity, MODEL))]
    told = world.answers([(None, headers)] * 12)
    assert {one.cluster for one in told} == {side}


def test_a_header_chooses_the_version_whatever_the_shares_are(world: World) -> None:
    assert set(world.sides(USERS[:20], x_tidegate_version="canary")) == {"canary"}
    assert set(world.sides(USERS[:20], x_canary="true")) == {"canary"}
    world.whole_split(stable=0, canary=1000)
    assert set(world.sides(USERS[:20], x_tidegate_version="stable")) == {"stable"}
    world.whole_split(stable=300, canary=700)
    assert set(world.sides(USERS[:40], x_canary="false")) == {"stable"}
    assert "canary" in world.sides(USERS[:40], x_canary="perhaps")


def test_a_version_that_the_model_does_not_have_is_refused(world: World) -> None:
    for version in ("nope", "eu", "shadow"):
        told = world.ask("a", x_tidegate_version=version)
        assert (told.status, f"no version `{version}`" in told.text) == (400, True)


def test_an_attribute_rule_holds_for_its_share_of_users_and_for_the_same_ones(world: World) -> None:
    there = [slot_of(point(user, f"rule {MODEL} eu")) < 300 for user in USERS]
    assert world.sides(USERS, x_region="eu") == ["eu" if one else "stable" for one in there]
    assert set(world.sides(USERS[:20], x_region="us")) == {"stable"}
    assert set(world.sides(USERS[:20], x_tier="gold")) == {"gold"}


def test_a_header_wins_over_a_rule(world: World) -> None:
    assert set(world.sides(USERS[:10], x_tier="gold", x_canary="true")) == {"canary"}
    assert set(world.sides(USERS[:10], x_tier="gold", x_canary="false")) == {"gold"}


def test_headers_that_steer_are_not_seen_by_the_engine_where_the_file_says_so(world: World) -> None:
    steering = {"x_canary": "true", "x_region": "us", "x_tidegate_version": "canary", "x_probe": "1"}
    world.answers([("a", steering)])
    heard = [
        {name.lower() for name, _ in one["headers"]}
        for at in (world.canary, world.second)
        for one in world.received(at, last=1)
    ]
    (names,) = [one for one in heard if "x-probe" in one]
    assert not names & {"x-canary", "x-region", "x-tidegate-version", "x-tidegate-cluster"}


def test_shares_that_do_not_sum_to_1000_are_refused_and_the_last_good_ones_stay(world: World) -> None:
    world.whole_split(stable=800, canary=200)
    world.split(canary="300")
    rejected = "its shares sum to 1100; they have to sum to 1000"
    wait_until(lambda: rejected in world.up.redis("HGET", "tidegate:rejected", f"split:{MODEL}"), what="the refusal")
    said = world.up.redis("HGET", "tidegate:rejected", f"split:{MODEL}")
    assert said.endswith("the last good split, stable=800 canary=200 empty=0, stays in force")
    assert world.sides(USERS) == expected(stable=800, canary=200)
    world.split(stable="700")
    world.wait_in_force(MODEL, {"stable": 700, "canary": 300})
    wait_until(lambda: not world.up.redis("HGET", "tidegate:rejected", f"split:{MODEL}"), what="no refusal")


def test_users_of_a_version_without_a_replica_are_served_by_the_others_and_it_is_said(world: World) -> None:
    world.whole_split(stable=300, canary=200, empty=500)
    lost = world.metric("tidegate_ext_proc_split_fallbacks_total", model=MODEL, version="empty")
    sides = world.sides(USERS)
    meant = expected(stable=300, canary=200, empty=500)
    assert [one for one, other in zip(sides, meant, strict=True) if other != "empty"] == [
        one for one in meant if one != "empty"
    ]
    moved = [one for one, other in zip(sides, meant, strict=True) if other == "empty"]
    assert (set(moved), sides) == ({"stable", "canary"}, world.sides(USERS))
    now = world.metric("tidegate_ext_proc_split_fallbacks_total", model=MODEL, version="empty")
    assert now >= max(lost, 0) + 2 * len(moved)
    log = (world.up.ready_file.parent / "logs" / "ext_proc.log").read_text()
    events = [one["event"] for one in map(json.loads, log.splitlines()) if one.get("version") == "empty"]
    assert events[0].startswith("a version serves nobody")
    assert "a version serves again" not in events


def test_with_nobody_else_a_version_without_a_replica_answers_503(world: World) -> None:
    """A version at 0 gets nothing, whatever happens to the others."""
    world.whole_split(empty=1000)
    assert {one.status for one in world.ask_all([(user, {}) for user in USERS[:10]])} == {503}


def test_a_model_gets_its_first_split_live_and_loses_it_again(world: World) -> None:
    world.split(LATER, stable=0, canary=1000)
    world.wait_in_force(LATER, {"canary": 1000})
    assert {one.cluster for one in world.answers([("a", {})] * 5, LATER)} == {"canary"}
    world.up.redis("DEL", f"tidegate:split:{LATER}")
    wait_until(lambda: world.share(LATER, "canary") == -1, what="no split")
    assert {one.cluster for one in world.answers([("a", {})] * 5, LATER)} == {"stable"}


IN_FORCE = "stable=400 canary=600 empty=0"


def test_splits_survive_an_emptied_redis_and_restarts(world: World) -> None:
    world.whole_split(stable=400, canary=600)
    sides = expected(stable=400, canary=600)
    world.up.redis("FLUSHALL")
    assert world.sides(USERS) == sides
    wait_until(lambda: world.up.redis("HGET", f"tidegate:split:{MODEL}", "canary") == "600", what="written back")
    wait_until(lambda: world.up.redis("HGET", "tidegate:tuned", f"split:{MODEL}") == IN_FORCE, what="in force again")
    assert world.sides(USERS) == sides
    for service in ("ext_proc", "xds"):
        restart(world, service)
        wait_until(lambda: world.sides(USERS) == sides, what="every user as before")
    assert world.up.redis("HGET", "tidegate:tuned", f"split:{MODEL}") == IN_FORCE


def restart(world: World, service: str) -> None:
    """kill -9, and wait until `tidegate up` has it back."""
    died = world.up.kill(service)
    wait_until(lambda: world.up.pid(service) not in (None, died), what=f"{service} is back")
    wait_until(lambda: world.share(MODEL, "stable") >= 0, what="ext_proc answers")
