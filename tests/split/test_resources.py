"""What xds tells Envoy of splits, shadows and headers that steer."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from envoy.extensions.filters.http.ext_proc.v3 import ext_proc_pb2
from envoy.extensions.filters.network.http_connection_manager.v3 import http_connection_manager_pb2 as hcm

from tidegate.domain.membership import Membership
from tidegate.domain.routing import RouteMatch, RouteRule, Shadow, Split
from tidegate.domain.topology import Cluster, Endpoint, Topology
from xds_server.compose import Gateway, compose
from xds_server.consistency import check
from xds_server.desired import Desired
from xds_server.resources import build
from xds_server.store_view import StoreView
from xds_server.type_urls import LISTENER, ROUTE

TOPOLOGY = Topology(
    clusters=(
        Cluster("stable", models=("m",), endpoints=(Endpoint("10.0.0.1:80"),)),
        Cluster("canary", models=(), endpoints=(Endpoint("10.0.0.2:80"),)),
        Cluster("empty", models=()),
        Cluster("ruled", models=(), endpoints=(Endpoint("10.0.0.3:80"),)),
    ),
)
SPLIT = Split("m", (("stable", 900), ("canary", 60), ("empty", 40)), canary=("canary",))
GATEWAY = Gateway(
    listen_host="127.0.0.1",
    listen_port=1,
    max_request_bytes=1,
    expose_routing=True,
    ext_proc_host="127.0.0.1",
    ext_proc_port=2,
    user_header="x-user",
)


def desired(topology: Topology, *, away: bool = False, gateway: Gateway = GATEWAY, split: str = "") -> Desired:
    """`split` is what the controller accepted for the model m."""
    view = StoreView(membership=Membership(), tuned={"split:m": split} if split else {})
    ips = {f"10.0.0.{number}": f"10.0.0.{number}" for number in range(1, 9)}
    return compose(gateway, topology, view, ips, 3000, picker_away=away)


def routes(one: Desired) -> dict[str, Any]:
    """By name; what Envoy would not take is a failure."""
    messages = build(one)
    check(messages)
    (table,) = messages[ROUTE].values()
    return {route.name: route for host in table.virtual_hosts for route in host.routes}


def attributes(one: Desired) -> list[str]:
    """What ext_proc is sent of a request, beside path and content headers."""
    (listener,) = build(one)[LISTENER].values()
    manager, processor = hcm.HttpConnectionManager(), ext_proc_pb2.ExternalProcessor()
    assert listener.filter_chains[0].filters[0].typed_config.Unpack(manager)
    assert any(one.typed_config.Unpack(processor) for one in manager.http_filters)
    return list(processor.request_attributes)[3:]


def test_ext_proc_is_told_who_asks_only_where_that_matters() -> None:
    none = attributes(desired(TOPOLOGY))
    assert none == ["request.headers['x-tidegate-priority']"]
    who = [
        "request.headers['x-tidegate-priority']",
        "request.headers['x-tidegate-version']",
        "source.address",
        *(f"request.headers['{name}']" for name in ("x-user", "authorization", "x-api-key", "api-key")),
    ]
    assert attributes(desired(replace(TOPOLOGY, splits=(SPLIT,)))) == [*who, "request.headers['x-canary']"]
    assert attributes(desired(TOPOLOGY, split="stable=1000")) == who
    rule = RouteRule(RouteMatch(), "ruled", share_permille=5)
    assert attributes(desired(replace(TOPOLOGY, routes=(rule,)))) == [who[0], *who[2:]]


def test_versions_by_name_can_be_turned_off() -> None:
    off = desired(replace(TOPOLOGY, splits=(SPLIT,)), gateway=replace(GATEWAY, version_header=False))
    assert "request.headers['x-tidegate-version']" not in attributes(off)


def test_headers_that_steer_are_removed_before_the_engine() -> None:
    split = replace(TOPOLOGY, splits=(SPLIT,))
    route = routes(desired(split, gateway=replace(GATEWAY, strip_headers=("x-canary", "x-region"))))["canary"]
    assert {"x-tidegate-version", "x-canary", "x-region"} <= set(route.request_headers_to_remove)


def test_a_shadow_is_mirrored_from_wherever_its_model_may_go() -> None:
    rules = (RouteRule(RouteMatch(), "ruled"), RouteRule(RouteMatch(model="other"), "empty"))
    shadows = (Shadow("m", (("canary", 25), ("empty", 0))),)
    found = routes(desired(replace(TOPOLOGY, splits=(SPLIT,), routes=rules, shadows=shadows)))
    mirrored = {name: route for name, route in found.items() if name.endswith("shadowed m")}
    assert set(mirrored) == {f"{name} shadowed m" for name in ("stable", "canary", "empty", "ruled")}
    (mirror,) = mirrored["stable shadowed m"].route.request_mirror_policies
    share = mirror.runtime_fraction.default_value
    assert (mirror.cluster, share.numerator, share.denominator) == ("canary", 250, share.TEN_THOUSAND)
    assert not mirrored["canary shadowed m"].route.request_mirror_policies
    names = list(found)
    assert names.index("stable shadowed m") < names.index("stable")
    assert not found["stable"].route.request_mirror_policies


def test_alone_envoy_keeps_a_split_by_share_without_what_serves_nobody() -> None:
    found = routes(desired(replace(TOPOLOGY, splits=(SPLIT,)), away=True))
    weighted = found["by-model split m"].route.weighted_clusters.clusters
    assert [(one.name, one.weight.value) for one in weighted] == [("stable", 900), ("canary", 60)]
    names = list(found)
    assert names.index("by-model split m") < names.index("by-model stable")
    shown = {one.header.key: one.header.value for one in found["by-model split m"].response_headers_to_add}
    assert shown["x-tidegate-cluster"] == "%UPSTREAM_CLUSTER_RAW%"


def test_a_model_that_only_a_split_has_is_listed() -> None:
    listed = routes(desired(replace(TOPOLOGY, splits=(Split("only", (("empty", 1000),)),))))["models"]
    assert b'"only"' in listed.direct_response.body.inline_bytes


def test_with_ext_proc_there_envoy_does_not_split() -> None:
    assert not any(name.startswith("by-model") for name in routes(desired(replace(TOPOLOGY, splits=(SPLIT,)))))


@pytest.mark.parametrize(
    ("tuned", "expected"),
    [
        ("", (("stable", 900), ("canary", 60))),
        ("stable=0 canary=1000", (("canary", 1000),)),
        ("empty=1000", (("empty", 1000),)),
        ("stable=1 gone=999", (("stable", 900), ("canary", 60))),
    ],
    ids=["the file's", "the store's", "nobody serves", "of another file"],
)
def test_the_store_wins_over_the_file(tuned: str, expected: Any) -> None:
    (split,) = desired(replace(TOPOLOGY, splits=(SPLIT,)), split=tuned).splits
    assert split.parts == expected


def test_a_rule_for_some_users_is_not_kept_by_envoy_alone() -> None:
    rules = (RouteRule(RouteMatch(model="m"), "ruled", share_permille=500), RouteRule(RouteMatch(model="m"), "canary"))
    assert [rule.cluster for rule in desired(replace(TOPOLOGY, routes=rules)).name_rules] == ["canary"]


def test_an_emptied_store_leaves_what_was_accepted() -> None:
    view = StoreView().ordered({"stable": {"10.0.0.1:80": 5}}, {}, {"split:m": "stable=1000"})
    assert view.ordered({"stable": {}}, {}, {}).tuned == {"split:m": "stable=1000"}
    assert view.ordered({"stable": {"10.0.0.1:80": 5}}, {}, {}).tuned == {}
