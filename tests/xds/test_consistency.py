"""The check before publishing names every fault."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest
from envoy.extensions.load_balancing_policies.ring_hash.v3 import ring_hash_pb2

from tests.xds.worlds import DESIRED
from xds_server.consistency import InconsistentResources, check
from xds_server.resources import build
from xds_server.type_urls import CLUSTER, ENDPOINT, LISTENER, ROUTE


def built() -> dict[str, dict[str, Any]]:
    """Resources that a test may damage."""
    return deepcopy({type_url: dict(resources) for type_url, resources in build(DESIRED).items()})


def first_endpoint(messages: Any) -> Any:
    return messages[ENDPOINT]["chat"].endpoints[0].lb_endpoints[0]


def weight_zero(messages: Any) -> None:
    first_endpoint(messages).load_balancing_weight.value = 0


def no_weight(messages: Any) -> None:
    first_endpoint(messages).ClearField("load_balancing_weight")


def host_name(messages: Any) -> None:
    first_endpoint(messages).endpoint.address.socket_address.address = "gpu-1"


def port_zero(messages: Any) -> None:
    first_endpoint(messages).endpoint.address.socket_address.port_value = 0


def endpoint_twice(messages: Any) -> None:
    messages[ENDPOINT]["chat"].endpoints[0].lb_endpoints.append(first_endpoint(messages))


def cluster_of_a_route_gone(messages: Any) -> None:
    del messages[CLUSTER]["chat"], messages[ENDPOINT]["chat"]


def assignment_gone(messages: Any) -> None:
    del messages[ENDPOINT]["chat"]


def cluster_of_an_assignment_gone(messages: Any) -> None:
    messages[ENDPOINT]["other"] = messages[ENDPOINT]["chat"].__class__(cluster_name="other")


def name_differs(messages: Any) -> None:
    messages[CLUSTER]["chat"].name = "chat2"


def routes_gone(messages: Any) -> None:
    del messages[ROUTE]["gateway"]


def ext_proc_gone(messages: Any) -> None:
    del messages[CLUSTER]["tidegate_ext_proc"]


def listener_by_name(messages: Any) -> None:
    messages[LISTENER]["gateway"].address.socket_address.address = "localhost"


def too_heavy_together(messages: Any) -> None:
    for one in messages[ENDPOINT]["chat"].endpoints[0].lb_endpoints:
        one.load_balancing_weight.value = 2**31


def priority_gap(messages: Any) -> None:
    messages[ENDPOINT]["chat"].endpoints[0].priority = 2


def locality_twice(messages: Any) -> None:
    messages[ENDPOINT]["chat"].endpoints.add()
    messages[ENDPOINT]["chat"].endpoints.add()


def ring_upside_down(messages: Any) -> None:
    ring = messages[CLUSTER]["chat"].ring_hash_lb_config
    ring.minimum_ring_size.value, ring.maximum_ring_size.value = 4096, 1024


def ring_upside_down_in_a_policy(messages: Any) -> None:
    ring = ring_hash_pb2.RingHash(minimum_ring_size={"value": 4096}, maximum_ring_size={"value": 1024})
    policy = messages[CLUSTER]["chat"].load_balancing_policy.policies.add().typed_extension_config
    policy.name = "ring"
    policy.typed_config.Pack(ring)


def no_name(messages: Any) -> None:
    messages[CLUSTER][""] = messages[CLUSTER].pop("chat")
    messages[CLUSTER][""].name = ""


def no_connect_timeout(messages: Any) -> None:
    messages[CLUSTER]["chat"].connect_timeout.seconds = 0
    messages[CLUSTER]["chat"].connect_timeout.nanos = 0


def negative_timeout(messages: Any) -> None:
    route(messages).route.idle_timeout.seconds = -1


def port_beyond(messages: Any) -> None:
    messages[CLUSTER]["tidegate_ext_proc"].load_assignment.endpoints[0].lb_endpoints[
        0
    ].endpoint.address.socket_address.port_value = 65536


def policy_unheard_of(messages: Any) -> None:
    messages[CLUSTER]["chat"].lb_policy = 99


def weightless_split(messages: Any) -> None:
    route(messages).route.weighted_clusters.clusters.add(name="chat").weight.value = 0


def split_to_nowhere(messages: Any) -> None:
    route(messages).route.weighted_clusters.clusters.add(name="nowhere").weight.value = 1


def mirror_to_nowhere(messages: Any) -> None:
    route(messages).route.request_mirror_policies.add(cluster="nowhere")


def route(messages: Any) -> Any:
    return next(r for r in messages[ROUTE]["gateway"].virtual_hosts[0].routes if r.name == "chat")


def host_twice(messages: Any) -> None:
    hosts = messages[ROUTE]["gateway"].virtual_hosts
    hosts.add().CopyFrom(hosts[0])


def two_listeners_at_one_place(messages: Any) -> None:
    copy = type(messages[LISTENER]["gateway"])()
    copy.CopyFrom(messages[LISTENER]["gateway"])
    copy.name = "second"
    messages[LISTENER]["second"] = copy


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (weight_zero, "weight below 1"),
        (no_weight, "weight below 1"),
        (host_name, "gpu-1:8000 is not an IP"),
        (port_zero, "no valid port"),
        (endpoint_twice, "10.0.0.1:8000 is there twice"),
        (cluster_of_a_route_gone, "route chat goes to chat"),
        (assignment_gone, "cluster chat has no endpoint assignment"),
        (cluster_of_an_assignment_gone, "assigned to other"),
        (name_differs, "calls itself 'chat2'"),
        (routes_gone, "routes gateway, which are not there"),
        (ext_proc_gone, "ext_proc at tidegate_ext_proc"),
        (listener_by_name, "cannot listen on localhost"),
        (too_heavy_together, "sum to 4294967296"),
        (priority_gap, "priorities"),
        (locality_twice, "a locality twice"),
        (ring_upside_down, "a ring of at least 4096"),
        (ring_upside_down_in_a_policy, "a ring of at least 4096"),
        (no_name, "calls itself ''"),
        (no_connect_timeout, "connect_timeout 0.0 s must be above"),
        (negative_timeout, "idle_timeout -1.0 s is negative"),
        (port_beyond, "port_value 65536 must be at most 65535"),
        (policy_unheard_of, "lb_policy 99 is not defined"),
        (weightless_split, "weights that sum to 0"),
        (split_to_nowhere, "goes to nowhere"),
        (mirror_to_nowhere, "goes to nowhere"),
        (host_twice, "virtual host .* twice"),
        (two_listeners_at_one_place, "are both at"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_what_envoy_would_refuse_or_fail_on_is_found(damage: Callable[[Any], None], said: str) -> None:
    messages = built()
    damage(messages)
    with pytest.raises(InconsistentResources, match=said):
        check(messages)


def refuses(said: str, *damages: Callable[[Any], None]) -> None:
    for damage in damages:
        messages = built()
        damage(messages)
        with pytest.raises(InconsistentResources, match=said):
            check(messages)


def test_fact_16_what_is_there_twice_is_never_served() -> None:
    refuses("twice", endpoint_twice, locality_twice, host_twice)


def test_fact_17_one_bad_endpoint_keeps_the_whole_candidate_from_being_served() -> None:
    refuses("weight below 1", weight_zero)


def test_fact_28_a_ring_that_no_load_balancer_can_build_is_never_served() -> None:
    refuses("a ring of at least", ring_upside_down, ring_upside_down_in_a_policy)


def test_fact_29_a_route_to_an_unknown_cluster_is_never_served() -> None:
    refuses("is no cluster", cluster_of_a_route_gone, split_to_nowhere, mirror_to_nowhere)


def test_fact_37_a_resource_bears_the_name_that_it_is_filed_under() -> None:
    refuses("calls itself", name_differs)


def test_fact_48_weights_are_at_least_1_and_their_sum_fits() -> None:
    refuses("weight below 1", weight_zero, no_weight)
    refuses("sum to", too_heavy_together)


def test_fact_53_priorities_have_no_gap() -> None:
    refuses("leave some out", priority_gap)


def test_fact_54_an_endpoint_is_at_an_address() -> None:
    refuses("is not an IP address", host_name)


def test_fact_55_the_weights_of_a_split_have_a_sum() -> None:
    refuses("sum to 0", weightless_split)


def test_every_fault_is_named_at_once() -> None:
    messages = built()
    weight_zero(messages)
    listener_by_name(messages)
    with pytest.raises(InconsistentResources, match=r"weight below 1.*; .*localhost"):
        check(messages)


def test_what_passed_before_is_looked_at_again_only_for_what_it_refers_to() -> None:
    messages = built()
    weight_zero(messages)
    passed = frozenset((type_url, name) for type_url, of_type in messages.items() for name in of_type)
    check(messages, passed)
    del messages[CLUSTER]["chat"], messages[ENDPOINT]["chat"]
    with pytest.raises(InconsistentResources, match="goes to chat"):
        check(messages, passed)
