"""Which version ext_proc sends a request to: headers, rules, the split, and what serves nobody."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest
from structlog.testing import capture_logs

from ext_proc.route import Routes
from ext_proc.splits import SplitBook, Versions
from tests.conftest import until
from tidegate.domain.refusal import Reason, Refusal
from tidegate.domain.request import RequestInfo
from tidegate.domain.routing import Api, RouteMatch, RouteRule, Shadow, Split
from tidegate.domain.split import layout, point, slot_of
from tidegate.domain.topology import Cluster, Topology
from tidegate.store.memory import MemoryStore
from tidegate.store.nudged import Nudged
from tidegate.store.ports import ClusterDecision

PARTS = (("stable", 600), ("canary", 300), ("third", 100))
TOPOLOGY = Topology(
    clusters=(Cluster("stable", models=("m",)), *(Cluster(name, models=()) for name in ("canary", "third", "gold"))),
    splits=(Split("m", PARTS, canary=("canary", "third")),),
    routes=(
        RouteRule(RouteMatch(headers=(("x-tier", "gold"),)), "gold"),
        RouteRule(RouteMatch(headers=(("x-tier", "test"),)), "canary"),
        RouteRule(RouteMatch(model="m", headers=(("x-region", "eu"),)), "third", share_permille=250),
    ),
    aliases=(("gpt", "m"),),
    shadows=(Shadow("m", (("third", 100),)),),
)
USERS = [f"u{number}" for number in range(400)]


class World:
    """Routes over splits, with clusters that serve nobody and random bits that a test sets."""

    def __init__(self, topology: Topology = TOPOLOGY, **more: Any) -> None:
        self.down: set[str] = set()
        self.bits = 0
        self.book = SplitBook(topology)
        versions = Versions(self.book, lambda name: name not in self.down, lambda: self.bits, **more)
        self.routes = Routes(topology, versions=versions)

    def to(self, user: str | None, model: str | None = "m", address: str | None = None, **headers: str) -> str:
        known = {name.replace("_", "-"): value for name, value in headers.items()}
        info = RequestInfo(api=Api.CHAT, model=model, user=user)
        return self.routes.route(info, known.get, address).cluster

    def share(self, **headers: str) -> Counter[str]:
        return Counter(self.to(user, **headers) for user in USERS)


def side(identity: str) -> str:
    return layout(PARTS)[slot_of(point(identity, "m"))]


def test_the_split_decides_by_the_user() -> None:
    assert [World().to(user) for user in USERS] == [side(user) for user in USERS]


def test_an_alias_has_the_split_of_what_it_stands_for() -> None:
    info = RequestInfo(api=Api.CHAT, model="gpt", user="u1")
    there = World().routes.route(info, lambda _: None)
    assert (there.cluster, there.write_model, there.shadowed) == (side("u1"), "m", "m")


@pytest.mark.parametrize(
    ("user", "headers", "address", "identity"),
    [
        ("a", {"x_user": "b", "authorization": "c"}, "10.0.0.1:5", "a"),
        (None, {"x_user": "b", "authorization": "c"}, "10.0.0.1:5", "b"),
        ("", {"authorization": "c", "x_api_key": "d"}, "10.0.0.1:5", "c"),
        (None, {"x_api_key": "d", "api_key": "e"}, "10.0.0.1:5", "d"),
        (None, {"api_key": "e"}, "10.0.0.1:5", "e"),
        (None, {}, "10.0.0.1:5", "10.0.0.1"),
        (None, {}, "[2001:db8::1]:80", "[2001:db8::1]"),
    ],
    ids=["user", "header of the file", "authorization", "x-api-key", "api-key", "IPv4", "IPv6"],
)
def test_a_user_is_known_by_the_first_thing_that_is_there(
    user: str | None, headers: dict[str, str], address: str, identity: str
) -> None:
    assert World(user_header="x-user").to(user, address=address, **headers) == side(identity)


def test_the_port_of_an_address_does_not_matter() -> None:
    world = World()
    assert {world.to(None, address=f"10.1.2.3:{port}") for port in range(1, 200)} == {side("10.1.2.3")}


def test_without_any_identity_it_is_random() -> None:
    world = World()
    told = Counter[str]()
    for slot in range(1000):
        world.bits = (slot << 64) // 1000 + 1
        told[world.to(None)] += 1
    assert told == dict(PARTS)


def test_a_client_may_ask_for_a_version_and_for_no_other_cluster() -> None:
    world = World()
    assert set(world.share(x_tidegate_version="third")) == {"third"}
    for name in ("gold", "nope", "canary,canary", "x" * 200, "\x00"):
        with pytest.raises(Refusal) as told:
            world.to("u", x_tidegate_version=name)
        assert told.value.reason is Reason.INVALID_REQUEST
        assert len(told.value.message) < 150


def test_versions_by_name_can_be_turned_off() -> None:
    assert World(by_name=False).share(x_tidegate_version="nope") == World().share()


def test_a_canary_is_asked_for_by_share_and_avoided_by_share() -> None:
    asked, avoided = World().share(x_canary="true"), World().share(x_canary="FALSE")
    assert set(asked) == {"canary", "third"}
    assert 2 < asked["canary"] / asked["third"] < 4.5
    assert avoided == {"stable": len(USERS)}
    assert World().share(x_canary="true, True ") == asked
    for nothing in ("1", "yes", "", "true,false"):
        assert World().share(x_canary=nothing) == World().share()


def test_who_would_not_have_met_a_canary_stays_when_it_avoids_one() -> None:
    parts = (("stable", 500), ("other", 400), ("canary", 100))
    topology = Topology(
        clusters=tuple(Cluster(name, models=()) for name, _ in parts), splits=(Split("m", parts, ("canary",)),)
    )
    world = World(topology)
    for user in USERS:
        met = world.to(user)
        assert world.to(user, x_canary="false") in ({met} if met != "canary" else {"stable", "other"})


def test_canaries_at_0_are_asked_for_evenly() -> None:
    world = World()
    world.book.apply({"split:m": "stable=1000 canary=0 third=0"})
    asked = world.share(x_canary="true")
    assert set(asked) == {"canary", "third"}
    assert abs(asked["canary"] - 200) < 60


def test_a_version_that_is_asked_for_wins_over_rules_and_rules_over_the_split() -> None:
    world = World()
    assert set(world.share(x_tier="gold")) == {"gold"}
    assert set(world.share(x_tier="gold", x_tidegate_version="stable")) == {"stable"}
    assert set(world.share(x_tier="test", x_canary="false")) == {"stable"}
    assert set(world.share(x_tier="test")) == {"canary"}


def test_a_rule_with_a_share_holds_for_the_same_users_as_it_grows() -> None:
    def ruled(permille: int) -> set[str]:
        rule = RouteRule(RouteMatch(model="m"), "gold", share_permille=permille)
        world = World(Topology(clusters=TOPOLOGY.clusters, splits=TOPOLOGY.splits, routes=(rule,)))
        return {user for user in USERS if world.to(user) == "gold"}

    none, some, more, all_of_them = (ruled(share) for share in (0, 100, 300, 1000))
    assert none < some < more < all_of_them == set(USERS)
    assert 15 < len(some) < 70


def test_a_version_that_serves_nobody_gives_way_and_the_users_of_others_stay() -> None:
    world = World()
    world.down = {"canary"}
    for user in USERS:
        assert world.to(user) in ({side(user)} if side(user) != "canary" else {"stable", "third"})
    lost = sum(side(user) == "canary" for user in USERS)
    assert world.book.fallbacks == {("m", "canary"): lost}
    world.down = {"stable", "canary", "third"}
    assert [world.to(user) for user in USERS[:50]] == [side(user) for user in USERS[:50]]


def test_a_version_that_serves_users_of_another_serves_again() -> None:
    world = World()
    world.down = {"canary", "third"}
    world.share()
    assert world.book.down == [("m", "canary"), ("m", "third")]
    world.down = {"stable"}
    assert any(world.to(user) == "canary" for user in USERS if side(user) == "stable")
    assert ("m", "canary") not in world.book.down


def test_a_version_at_0_gets_nobody_whatever_happens_to_the_others() -> None:
    world = World()
    world.book.apply({"split:m": "stable=1000 canary=0 third=0"})
    world.down = {"stable"}
    assert set(world.share()) == {"stable"}


def test_who_asks_for_a_version_that_serves_nobody_gets_no_other() -> None:
    world = World()
    world.down = {"canary", "third"}
    assert world.to("u", x_tidegate_version="canary") == "canary"
    assert set(world.share(x_canary="true")) <= {"canary", "third"}


def test_the_store_says_what_is_in_force_and_an_emptied_one_says_nothing() -> None:
    asyncio.run(_follow())


async def _follow() -> None:
    store, book = MemoryStore(lambda: 1_000), SplitBook(TOPOLOGY)
    task = asyncio.create_task(book.follow(store, Nudged(store), 0.01))

    def parts() -> Any:
        split = book.of("m")
        return split and split.parts

    try:
        await store.set_field("tuned", "split:m", "stable=0 canary=1000")
        await store.write_decisions([ClusterDecision("stable", {"a:1": 5}, {})], {}, [])
        await until(lambda: parts() == (("stable", 0), ("canary", 1000)), what="the store's split")
        await store.write_decisions([ClusterDecision("stable", {}, {})], {}, [])
        await store.clear_field("tuned", "split:m")
        await asyncio.sleep(0.1)
        assert parts() == (("stable", 0), ("canary", 1000))
        await store.write_decisions([ClusterDecision("stable", {"a:1": 5}, {})], {}, [])
        await until(lambda: parts() == PARTS, what="the file's split")
    finally:
        task.cancel()


@pytest.mark.parametrize("headers", [{"x_tidegate_version": "canary"}, {"x_canary": "true"}, {}])
def test_a_version_is_found_silent_until_it_serves_a_request_and_told_once(headers: dict[str, str]) -> None:
    """Also where it is asked for, or is the last that has a share, so that requests go there all the same."""
    world = World(Topology(TOPOLOGY.clusters, splits=(Split("m", (("stable", 0), ("canary", 1000)), ("canary",)),)))
    world.down = {"canary"}
    with capture_logs() as told:
        for _ in range(2):
            assert world.to("u", **headers) == "canary"
            assert world.book.down == [("m", "canary")]
        world.down = set()
        world.to("u", **headers)
    assert world.book.down == []
    words = [one["event"] for one in told]
    assert words == ["a version serves nobody, and no other takes its users", "a version serves again"]
