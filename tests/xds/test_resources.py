"""What `build` makes of a desired state."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from envoy.config.core.v3 import health_check_pb2
from envoy.extensions.filters.http.ext_proc.v3 import ext_proc_pb2
from envoy.extensions.filters.network.http_connection_manager.v3 import http_connection_manager_pb2 as hcm
from envoy.extensions.load_balancing_policies.override_host.v3 import override_host_pb2
from envoy.extensions.upstreams.http.v3 import http_protocol_options_pb2

from tests.xds.worlds import CHAT, DESIRED, IMAGES, endpoint, with_endpoints
from xds_server.consistency import check
from xds_server.desired import Desired
from xds_server.resources import build
from xds_server.resources.names import EXT_PROC_CLUSTER, EXT_PROC_FILTER
from xds_server.snapshot import snapshot_of
from xds_server.type_urls import CLUSTER, ENDPOINT, LISTENER, ROUTE


def manager_of(desired: Desired) -> Any:
    manager = hcm.HttpConnectionManager()
    [chain] = build(desired)[LISTENER]["gateway"].filter_chains
    assert chain.filters[0].typed_config.Unpack(manager)
    return manager


def routes_of(desired: Desired) -> dict[str, Any]:
    [host] = build(desired)[ROUTE]["gateway"].virtual_hosts
    return {route.name: route for route in host.routes}


def lb_endpoints(desired: Desired, cluster: str = "chat") -> list[Any]:
    [locality] = build(desired)[ENDPOINT][cluster].endpoints
    return list(locality.lb_endpoints)


def test_a_built_state_passes_the_check() -> None:
    check(build(DESIRED))


def test_equal_states_build_equal_bytes() -> None:
    assert snapshot_of(build(DESIRED)).changed_types(snapshot_of(build(replace(DESIRED)))) == ()


def test_a_weight_changes_endpoints_alone() -> None:
    before, after = with_endpoints(endpoint(1, 100)), with_endpoints(endpoint(1, 101))
    assert snapshot_of(build(after)).changed_types(snapshot_of(build(before))) == (ENDPOINT,)


def test_a_replica_that_joins_or_drains_changes_endpoints_alone() -> None:
    before = with_endpoints(endpoint(1, 100))
    after = with_endpoints(endpoint(1, 100), endpoint(2, 0), endpoint(3, takes_traffic=False))
    assert snapshot_of(build(after)).changed_types(snapshot_of(build(before))) == (ENDPOINT,)


@pytest.mark.parametrize(
    "stopped", [endpoint(1, 0), endpoint(1, 700, takes_traffic=False)], ids=["weight 0", "takes no traffic"]
)
def test_an_endpoint_without_new_traffic_is_draining_with_a_valid_weight(stopped: Any) -> None:
    [one] = lb_endpoints(with_endpoints(stopped))
    assert one.health_status == health_check_pb2.DRAINING
    assert one.load_balancing_weight.value >= 1


def test_an_unknown_weight_is_the_mean_of_the_known_ones_above_zero() -> None:
    assert [e.load_balancing_weight.value for e in lb_endpoints(DESIRED, "images")] == [300, 200, 400]


def test_unknown_weights_alone_are_equal() -> None:
    desired = with_endpoints(endpoint(1), endpoint(2))
    assert [e.load_balancing_weight.value for e in lb_endpoints(desired)] == [1, 1]


def test_a_pick_cluster_takes_its_host_from_metadata_alone_and_falls_back_to_round_robin() -> None:
    [policy] = build(DESIRED)[CLUSTER]["chat"].load_balancing_policy.policies
    override = override_host_pb2.OverrideHost()
    assert policy.typed_extension_config.typed_config.Unpack(override)
    [source] = override.override_host_sources
    assert (source.metadata.key, source.metadata.path[0].key) == ("envoy.lb", "x-gateway-destination-endpoint")
    assert source.header == ""
    [fallback] = override.fallback_policy.policies
    assert fallback.typed_extension_config.name.endswith("round_robin")


def test_a_weighted_cluster_is_balanced_by_round_robin() -> None:
    [policy] = build(DESIRED)[CLUSTER]["images"].load_balancing_policy.policies
    assert policy.typed_extension_config.name == "envoy.load_balancing_policies.round_robin"


def test_no_cluster_ever_panics() -> None:
    clusters = build(DESIRED)[CLUSTER].values()
    assert len(clusters) == 3
    for cluster in clusters:
        assert cluster.common_lb_config.HasField("healthy_panic_threshold")
        assert cluster.common_lb_config.healthy_panic_threshold.value == 0


@pytest.mark.parametrize(("host", "kind"), [("10.0.0.9", "STATIC"), ("::1", "STATIC"), ("ext-proc", "STRICT_DNS")])
def test_ext_proc_is_found_by_address_or_by_name(host: str, kind: str) -> None:
    cluster = build(replace(DESIRED, ext_proc_host=host))[CLUSTER]["tidegate_ext_proc"]
    assert cluster.DiscoveryType.Name(cluster.type) == kind


def test_a_cluster_with_the_name_of_ext_proc_s_is_refused() -> None:
    with pytest.raises(ValueError, match="tidegate_ext_proc"):
        build(replace(DESIRED, clusters=(replace(CHAT, name="tidegate_ext_proc"),)))


def test_weights_leave_the_route_table_as_it_is() -> None:
    tables = [build(with_endpoints(endpoint(1, weight)))[ROUTE]["gateway"] for weight in (100, 101)]
    assert tables[0] is tables[1]
    drained = build(with_endpoints(endpoint(1, 0)))[ROUTE]["gateway"]
    assert drained.virtual_hosts[0].routes[0].direct_response.status == 503


def test_aliases_are_listed_behind_the_models_and_each_name_once() -> None:
    twice = replace(IMAGES, models=("sdxl", "phi-3"))
    body = routes_of(replace(DESIRED, clusters=(CHAT, twice), aliases=("gpt",)))["models"].direct_response.body
    assert [one["id"] for one in json.loads(body.inline_bytes)["data"]] == ["phi-3", "org/phi-3-mini", "sdxl", "gpt"]


def test_ext_proc_is_asked_for_the_headers_of_rules_once_each() -> None:
    processor = ext_proc_pb2.ExternalProcessor()
    manager = manager_of(replace(DESIRED, rule_headers=("content-type", "x-tier")))
    assert next(f for f in manager.http_filters if f.name == EXT_PROC_FILTER).typed_config.Unpack(processor)
    assert list(processor.request_attributes) == [
        "request.path",
        "request.headers['content-encoding']",
        "request.headers['content-type']",
        "request.headers['x-tier']",
        "request.headers['x-tidegate-priority']",
    ]


def test_ext_proc_is_asked_for_posts_alone() -> None:
    asked = [name for name, route in routes_of(DESIRED).items() if EXT_PROC_FILTER not in route.typed_per_filter_config]
    assert asked == ["chat", "images", "unrouted-messages", "unrouted"]


def test_the_filter_chain_is_ext_proc_buffer_fault_router() -> None:
    filters = manager_of(DESIRED).http_filters
    assert [f.name.rpartition(".")[2] for f in filters if not f.disabled] == ["ext_proc", "buffer", "fault", "router"]
    assert [f.name.rpartition(".")[2] for f in filters if f.disabled] == ["whole_body", "json_to_metadata"]


def test_ext_proc_sees_one_body_message_and_nothing_else() -> None:
    processor = ext_proc_pb2.ExternalProcessor()
    filters = manager_of(DESIRED).http_filters
    assert next(f for f in filters if f.name == EXT_PROC_FILTER).typed_config.Unpack(processor)
    mode = processor.processing_mode
    kinds = type(mode)
    assert (mode.request_header_mode, mode.response_header_mode) == (kinds.SKIP, kinds.SKIP)
    assert (mode.request_body_mode, mode.response_body_mode) == (kinds.BUFFERED, kinds.NONE)
    assert list(processor.metadata_options.receiving_namespaces.untyped) == ["tidegate", "tidegate.request", "envoy.lb"]
    assert "request.headers" not in processor.request_attributes


def test_models_of_every_cluster_are_listed_in_the_order_of_the_file() -> None:
    body = json.loads(routes_of(DESIRED)["models"].direct_response.body.inline_bytes)
    assert body["object"] == "list"
    assert [model["id"] for model in body["data"]] == ["phi-3", "org/phi-3-mini", "sdxl"]
    assert {model["object"] for model in body["data"]} == {"model"}


def test_a_long_list_of_models_fits_the_route_table() -> None:
    many = replace(CHAT, models=tuple(f"model-{n}" for n in range(500)))
    table = build(replace(DESIRED, clusters=(many,)))[ROUTE]["gateway"]
    longest = max(len(r.direct_response.body.inline_bytes) for r in table.virtual_hosts[0].routes)
    assert 4096 < longest <= table.max_direct_response_body_size_bytes.value


@pytest.mark.parametrize(
    ("status", "endpoints"),
    [
        (200, [endpoint(1, 5), endpoint(2, 0)]),
        (200, [endpoint(1)]),
        (503, [endpoint(1, 0), endpoint(2, takes_traffic=False)]),
        (503, []),
    ],
    ids=["one of two", "unknown weight", "none", "no endpoints"],
)
def test_health_is_that_of_the_endpoints(status: int, endpoints: list[Any]) -> None:
    assert routes_of(with_endpoints(*endpoints))["health"].direct_response.status == status


def test_retries_never_repeat_what_an_engine_may_have_begun() -> None:
    policy = routes_of(DESIRED)["chat"].route.retry_policy
    assert policy.retry_on.split(",") == ["connect-failure", "refused-stream", "reset-before-request"]
    assert policy.num_retries.value == 2


def test_a_cluster_s_answer_may_take_as_long_as_it_takes() -> None:
    action = routes_of(DESIRED)["chat"].route
    assert action.HasField("timeout")
    assert (action.timeout.seconds, action.timeout.nanos) == (0, 0)


def test_routing_is_shown_only_where_the_file_says_so() -> None:
    shown = routes_of(DESIRED)["chat"].response_headers_to_add
    assert [h.header.key for h in shown] == ["x-tidegate-cluster", "x-tidegate-endpoint"]
    hidden = routes_of(replace(DESIRED, expose_routing=False))["chat"]
    assert not hidden.response_headers_to_add
    assert {"x-tidegate-cluster", "x-tidegate-endpoint"} <= set(hidden.response_headers_to_remove)


def test_an_endpoint_named_by_host_keeps_its_name_beside_its_address() -> None:
    named = replace(endpoint(1), address="gpu-1:8000")
    first, second = lb_endpoints(with_endpoints(named, endpoint(2)))
    assert (first.endpoint.hostname, second.endpoint.hostname) == ("gpu-1:8000", "")


def test_two_clusters_have_a_route_each() -> None:
    table = routes_of(DESIRED)
    assert [table[c.name].route.cluster for c in (CHAT, IMAGES)] == ["chat", "images"]


def test_many_large_bodies_at_once_are_no_flood_to_ext_proc() -> None:
    """Envoy's default of 10,000 outbound frames cut the connection at 64 bodies of 10 MiB."""
    options = build(DESIRED)[CLUSTER][EXT_PROC_CLUSTER].typed_extension_protocol_options
    message = http_protocol_options_pb2.HttpProtocolOptions()
    next(iter(options.values())).Unpack(message)
    assert message.explicit_http_config.http2_protocol_options.max_outbound_frames.value >= 1_000_000
