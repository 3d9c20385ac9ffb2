"""What is remembered of the store, what becomes of it, and the names that are resolved on the way."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from tidegate.domain.membership import GRACE_MS, MOST_STEP_MS
from tidegate.domain.sample import EndpointSample, Status
from tidegate.domain.topology import Cluster, Endpoint, Topology
from xds_server.compose import Gateway, compose
from xds_server.desired import DesiredCluster
from xds_server.resolver import REFRESH_SECONDS, Resolver
from xds_server.store_view import StoreView

GATEWAY = Gateway(
    listen_host="127.0.0.1",
    listen_port=1,
    max_request_bytes=1,
    expose_routing=False,
    ext_proc_host="127.0.0.1",
    ext_proc_port=2,
)
CHAT = Cluster("chat", ("phi-3",), endpoints=(Endpoint("10.0.0.1:8000"),))
IPS = {f"10.0.0.{n}": f"10.0.0.{n}" for n in range(1, 5)}
NOW = 1_000_000_000


def sample(status: Status, address: str = "10.0.0.1:8000", sampled_at_ms: int = NOW) -> EndpointSample:
    return EndpointSample(cluster="chat", address=address, node="n", sampled_at_ms=sampled_at_ms, seq=1, status=status)


def read(view: StoreView, *, now_ms: int = NOW, **said: object) -> StoreView:
    return view.updated(**({"weights": {}, "registered": [], "samples": [], "now_ms": now_ms} | said))  # type: ignore[arg-type]


def composed(view: StoreView, ips: dict[str, str] | None = None, cluster: Cluster = CHAT) -> DesiredCluster:
    return compose(GATEWAY, Topology((cluster,)), view, IPS if ips is None else ips, 3000).clusters[0]


def addresses(view: StoreView) -> list[str]:
    return [e.address for e in composed(view).endpoints]


def test_what_left_on_purpose_goes_at_once_and_may_come_back() -> None:
    place = ("chat", "10.0.0.2:8000")
    full = read(StoreView(), registered=[(*place, NOW)])
    assert place[1] in addresses(full)
    left = read(full, departed={place})
    assert place[1] not in addresses(left)
    assert place[1] in addresses(read(left, registered=[(*place, NOW + 1)]))


def test_a_replica_has_the_zone_of_its_node_and_keeps_it_without_samples() -> None:
    filed = Cluster("chat", ("phi-3",), endpoints=(Endpoint("10.0.0.1:8000", zone="own"), Endpoint("10.0.0.3:8000")))
    topology = Topology((filed,), zones=(("n", "a"),))
    places = [("chat", "10.0.0.2:8000", NOW)]
    full = read(StoreView(), registered=places, samples=[sample(Status.READY, f"10.0.0.{n}:8000") for n in (1, 2)])
    for view in (full, read(full, registered=places, samples=[], now_ms=NOW + 1)):
        [chat] = compose(GATEWAY, topology, view, IPS, 3000).clusters
        assert {e.ip: e.zone for e in chat.endpoints} == {"10.0.0.1": "own", "10.0.0.2": "a", "10.0.0.3": ""}


def test_an_emptied_store_changes_nothing() -> None:
    full = read(StoreView(), weights={"chat": {"10.0.0.1:8000": 7}}, registered=[("chat", "10.0.0.2:8000", NOW)])
    assert composed(read(full, now_ms=NOW + 1)) == composed(full)


def test_a_weight_that_leaves_a_cluster_s_hash_is_unknown() -> None:
    view = read(StoreView(), weights={"chat": {"10.0.0.1:8000": 7, "10.0.0.2:8000": 1}})
    view = read(view, weights={"chat": {"10.0.0.2:8000": 1}})
    assert composed(view).endpoints[0].weight is None


def missing(view: StoreView, place: tuple[str, str]) -> StoreView:
    """The view after looks, a few seconds apart, that heard of `place` alone, until the grace of others is over."""
    for step in range(1, GRACE_MS // MOST_STEP_MS + 1):
        at = NOW + step * MOST_STEP_MS
        view = read(view, now_ms=at, registered=[(*place, at)])
    return view


def test_a_registered_endpoint_stays_through_its_grace_and_goes_after_it() -> None:
    place = ("chat", "10.0.0.3:8000")
    view = read(StoreView(), registered=[("chat", "10.0.0.2:8000", NOW), (*place, NOW)])
    assert addresses(view) == ["10.0.0.1:8000", "10.0.0.2:8000", "10.0.0.3:8000"]
    assert addresses(missing(view, place)) == ["10.0.0.1:8000", "10.0.0.3:8000"]


@pytest.mark.parametrize("address", ["no port", "10.0.0.1:0", "", "::1:80"])
def test_a_registered_address_that_is_none_is_left_out(address: str) -> None:
    assert addresses(read(StoreView(), registered=[("chat", address, NOW)])) == ["10.0.0.1:8000"]


def test_an_endpoint_of_an_unknown_cluster_is_left_out() -> None:
    assert addresses(read(StoreView(), registered=[("other", "10.0.0.2:8000", NOW)])) == ["10.0.0.1:8000"]


@pytest.mark.parametrize(
    ("taken", "status"),
    [(True, Status.READY), (True, Status.IDLE), (False, Status.LOADING), (False, Status.UNREACHABLE)],
)
def test_a_fresh_sample_says_whether_an_endpoint_takes_traffic(taken: bool, status: Status) -> None:
    assert composed(read(StoreView(), samples=[sample(status)])).endpoints[0].takes_traffic is taken


def test_names_that_engines_list_follow_the_file_s_and_stay_while_an_engine_is_silent() -> None:
    cluster = replace(CHAT, loras=("sql",))
    here, there = sample(Status.READY), sample(Status.READY, "10.0.0.2:8000")
    registered = [("chat", one.address, NOW) for one in (here, there)]
    listing = [replace(here, models=("phi-3", "z", "b")), replace(there, models=("a", "sql"))]
    view = read(StoreView(), registered=registered, samples=listing)
    assert composed(view, cluster=cluster).models == ("phi-3", "sql", "a", "b", "z")
    view = read(view, registered=registered, samples=[here, replace(there, models=("c",))])
    assert composed(view, cluster=cluster).models == ("phi-3", "sql", "b", "c", "z")
    assert composed(missing(view, ("other", "10.0.0.9:1")), cluster=cluster).models == ("phi-3", "sql")


def test_a_stale_sample_says_nothing() -> None:
    old = sample(Status.UNREACHABLE, sampled_at_ms=NOW - 3001)
    assert composed(read(StoreView(), samples=[old])).endpoints[0].takes_traffic


def test_a_host_without_address_is_left_out_and_breaks_no_other() -> None:
    cluster = replace(CHAT, endpoints=(Endpoint("nowhere:8000"), Endpoint("10.0.0.1:8000")))
    assert [e.address for e in composed(StoreView(), cluster=cluster).endpoints] == ["10.0.0.1:8000"]


def test_two_names_of_one_place_are_one_endpoint() -> None:
    cluster = replace(CHAT, endpoints=(Endpoint("gpu-1:8000"), Endpoint("10.0.0.1:8000")))
    served = composed(StoreView(), {**IPS, "gpu-1": "10.0.0.1"}, cluster)
    assert [e.address for e in served.endpoints] == ["gpu-1:8000"]


class Names:
    """A resolver of names under the test's control, and its clock."""

    def __init__(self) -> None:
        self.table: dict[str, list[str]] = {}
        self.seconds = 0.0
        self.asked: list[str] = []

    async def lookup(self, host: str) -> list[str]:
        self.asked.append(host)
        if host not in self.table:
            raise OSError("no such name")
        return self.table[host]

    async def refreshed(self, resolver: Resolver, host: str) -> str | None:
        """What is known once the background lookup that time calls for is over."""
        self.seconds += REFRESH_SECONDS
        await resolver.addresses([host])
        await asyncio.gather(*resolver._running.values())
        return (await resolver.addresses([host])).get(host)


async def test_a_name_is_known_at_the_first_question_and_not_asked_again_at_once() -> None:
    names = Names()
    names.table["gpu-1"] = ["10.0.0.1"]
    resolver = Resolver(names.lookup, lambda: names.seconds)
    for _ in range(3):
        assert await resolver.addresses(["gpu-1", "nowhere"]) == {"gpu-1": "10.0.0.1"}
    assert sorted(names.asked) == ["gpu-1", "nowhere"]


async def test_the_last_good_address_of_a_name_stays() -> None:
    names = Names()
    names.table["gpu-1"] = ["10.0.0.1"]
    resolver = Resolver(names.lookup, lambda: names.seconds)
    await resolver.addresses(["gpu-1"])
    del names.table["gpu-1"]
    assert await names.refreshed(resolver, "gpu-1") == "10.0.0.1"


async def test_an_address_stays_while_the_name_still_has_it() -> None:
    names = Names()
    names.table["gpu-1"] = ["10.0.0.2"]
    resolver = Resolver(names.lookup, lambda: names.seconds)
    await resolver.addresses(["gpu-1"])
    names.table["gpu-1"] = ["10.0.0.1", "10.0.0.2"]
    assert await names.refreshed(resolver, "gpu-1") == "10.0.0.2"
    names.table["gpu-1"] = ["10.0.0.1"]
    assert await names.refreshed(resolver, "gpu-1") == "10.0.0.1"


async def test_addresses_need_no_lookup_of_the_network() -> None:
    assert await Resolver().addresses(["127.0.0.1", "::1"]) == {"127.0.0.1": "127.0.0.1", "::1": "::1"}
