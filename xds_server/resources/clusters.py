"""CDS: one cluster a model pool, and those of Tidegate's own services."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from envoy.config.cluster.v3 import circuit_breaker_pb2, cluster_pb2, outlier_detection_pb2
from envoy.config.common.matcher.v3 import matcher_pb2
from envoy.config.core.v3 import base_pb2, config_source_pb2, extension_pb2, health_check_pb2, protocol_pb2
from envoy.config.endpoint.v3 import endpoint_components_pb2, endpoint_pb2
from envoy.config.route.v3 import route_components_pb2
from envoy.extensions.load_balancing_policies.common.v3 import common_pb2
from envoy.extensions.load_balancing_policies.least_request.v3 import least_request_pb2
from envoy.extensions.load_balancing_policies.override_host.v3 import override_host_pb2
from envoy.extensions.load_balancing_policies.round_robin.v3 import round_robin_pb2
from envoy.extensions.upstreams.http.v3 import http_protocol_options_pb2 as http
from envoy.type.matcher.v3 import regex_pb2, string_pb2
from envoy.type.metadata.v3 import metadata_pb2
from envoy.type.v3 import percent_pb2

from tidegate.domain.topology import LbPolicy
from tidegate.domain.upstream import Balance, Http, Upstream
from tidegate.domain.wire import DESTINATION_ENDPOINT, LB_METADATA_NAMESPACE
from xds_server.desired import Collector, Desired, DesiredCluster, OutcomesServer, PickerTls
from xds_server.resources.endpoints import socket_address
from xds_server.resources.names import EXT_PROC_CLUSTER, HTTP_OPTIONS, OTLP_CLUSTER, OUTCOMES_CLUSTER
from xds_server.resources.tls import is_ip, to_engines, to_picker
from xds_server.resources.wrap import UInt32, packed, seconds

CONNECT_TIMEOUT_SECONDS: Final = 1.0
# Envoy takes 10,000 frames of 16 KiB that wait to be sent for a flood and cuts the connection with every request on
# it. 64 bodies of 10 MiB at once are 40,000; the peer is our own.
FRAMES_TO_OURSELVES: Final = 10_000_000
# uvicorn, which serves most engines, closes an idle connection after 5 s. Envoy lets go first: a request that
# meets a closing connection fails, and is not repeated, since its generation may have started.
ENGINE_IDLE_SECONDS: Final = 4.0
PICKER_CHECK_SECONDS: Final = 0.25
# Envoy's default of 1024 (and 3 retries) would refuse what the engines could queue. Admission is ext_proc's.
MOST_AT_ONCE: Final = 100_000


def model_cluster(cluster: DesiredCluster) -> Any:
    """The Cluster of a model pool, its endpoints by EDS over the same ADS stream."""
    upstream, balance = cluster.upstream, _balance(cluster.upstream)
    return cluster_pb2.Cluster(
        name=cluster.name,
        type=cluster_pb2.Cluster.EDS,
        eds_cluster_config=cluster_pb2.Cluster.EdsClusterConfig(eds_config=over_ads()),
        connect_timeout=seconds(upstream.connect_timeout_ms / 1000),
        circuit_breakers=_circuit_breakers(upstream.max_requests),
        load_balancing_policy=_override_host(balance) if cluster.lb is LbPolicy.PICK else balance,
        common_lb_config=_hosts_as_they_are(),
        outlier_detection=_outlier_detection(upstream) if upstream.eject_after else None,
        typed_extension_protocol_options={HTTP_OPTIONS: packed(_engines_http(upstream))},
        transport_socket=to_engines(cluster.tls, upstream.http) if cluster.tls else None,
    )


def ext_proc_cluster(desired: Desired) -> Any:
    """The Cluster at which Envoy finds ext_proc: gRPC, by address or by DNS name, on one port or on one a worker."""
    ports = range(desired.ext_proc_port, (desired.ext_proc_last_port or desired.ext_proc_port) + 1)
    cluster = _of_our_own(EXT_PROC_CLUSTER, desired.ext_proc_host, ports, desired.ext_proc_tls)
    cluster.health_checks.append(_grpc_health())
    cluster.outlier_detection.CopyFrom(_dead_instances())
    return cluster


def outcomes_cluster(server: OutcomesServer) -> Any:
    """The Cluster at which Envoy tells how requests ended.

    Without health checks: where no host is healthy a batch stays and every further request tries to send it, at half
    of what a small request costs Envoy. So it is lost with the stream that was opened for it.
    """
    return _of_our_own(OUTCOMES_CLUSTER, server.host, [server.port], server.tls)


def otlp_cluster(collector: Collector) -> Any:
    """The Cluster at which Envoy finds the collector of its spans: without health checks, as that of outcomes."""
    return _of_our_own(OTLP_CLUSTER, collector.host, [collector.port], None, by_http1=collector.path is not None)


def _of_our_own(name: str, host: str, ports: Iterable[int], tls: PickerTls | None, *, by_http1: bool = False) -> Any:
    """gRPC, or HTTP/1.1, by address or by DNS name."""
    addresses = (socket_address(host, port) for port in ports)
    endpoints = (endpoint_components_pb2.Endpoint(address=address) for address in addresses)
    locality = endpoint_components_pb2.LocalityLbEndpoints(
        lb_endpoints=[endpoint_components_pb2.LbEndpoint(endpoint=endpoint) for endpoint in endpoints]
    )
    return cluster_pb2.Cluster(
        name=name,
        type=cluster_pb2.Cluster.STATIC if is_ip(host) else cluster_pb2.Cluster.STRICT_DNS,
        load_assignment=endpoint_pb2.ClusterLoadAssignment(cluster_name=name, endpoints=[locality]),
        connect_timeout=seconds(CONNECT_TIMEOUT_SECONDS),
        circuit_breakers=_circuit_breakers(),
        common_lb_config=_hosts_as_they_are(),
        typed_extension_protocol_options={} if by_http1 else {HTTP_OPTIONS: packed(_http2())},
        transport_socket=to_picker(tls) if tls else None,
    )


def _grpc_health() -> Any:
    """Of several instances, those are called that say that they serve; without any, Envoy does without at once."""
    every = seconds(PICKER_CHECK_SECONDS)
    return health_check_pb2.HealthCheck(
        interval=every,
        no_traffic_interval=every,
        timeout=seconds(1),
        unhealthy_threshold=UInt32(value=2),
        healthy_threshold=UInt32(value=1),
        grpc_health_check=health_check_pb2.HealthCheck.GrpcHealthCheck(),
    )


def _dead_instances() -> Any:
    """One that refuses connections gets no second request, for as long as the health check takes to see it."""
    always, never = UInt32(value=100), UInt32(value=0)
    return outlier_detection_pb2.OutlierDetection(
        split_external_local_origin_errors=True,
        consecutive_local_origin_failure=UInt32(value=1),
        enforcing_consecutive_local_origin_failure=always,
        enforcing_consecutive_5xx=never,
        enforcing_consecutive_gateway_failure=never,
        enforcing_success_rate=never,
        enforcing_local_origin_success_rate=never,
        interval=seconds(1),
        base_ejection_time=seconds(1),
        max_ejection_time=seconds(5),
        max_ejection_percent=UInt32(value=50),
    )


def over_ads() -> Any:
    """The config source that means: on the same aggregated stream."""
    return config_source_pb2.ConfigSource(
        ads=config_source_pb2.AggregatedConfigSource(), resource_api_version=config_source_pb2.V3
    )


def _hosts_as_they_are() -> Any:
    """No panic: when every endpoint drains there is none; else Envoy would send traffic to all of them.

    No merging either: by its default, Envoy's workers learn of failed health checks and ejections up to a second later
    than its main thread.
    """
    return cluster_pb2.Cluster.CommonLbConfig(
        healthy_panic_threshold=percent_pb2.Percent(value=0), update_merge_window=seconds(0)
    )


def _circuit_breakers(max_requests: int = MOST_AT_ONCE) -> Any:
    thresholds = [
        circuit_breaker_pb2.CircuitBreakers.Thresholds(
            priority=priority,
            max_connections=UInt32(value=MOST_AT_ONCE),
            max_pending_requests=UInt32(value=MOST_AT_ONCE),
            max_requests=UInt32(value=max_requests),
            max_retries=UInt32(value=MOST_AT_ONCE),
        )
        for priority in (base_pb2.DEFAULT, base_pb2.HIGH)
    ]
    return circuit_breaker_pb2.CircuitBreakers(thresholds=thresholds)


def _policy(name: str, config: Any) -> Any:
    extension = extension_pb2.TypedExtensionConfig(name=name, typed_config=packed(config))
    policy = cluster_pb2.LoadBalancingPolicy.Policy(typed_extension_config=extension)
    return cluster_pb2.LoadBalancingPolicy(policies=[policy])


def _balance(upstream: Upstream) -> Any:
    """By weight: exact shares, or fewer for those with much in flight. A replica that comes back ramps up."""
    ramp: dict[str, Any] = {}
    if upstream.ramp_ms:
        window = seconds(upstream.ramp_ms / 1000)
        ramp["slow_start_config"] = common_pb2.SlowStartConfig(slow_start_window=window)
    if upstream.balance is Balance.ROUND_ROBIN:
        return _policy("envoy.load_balancing_policies.round_robin", round_robin_pb2.RoundRobin(**ramp))
    bias = base_pb2.RuntimeDouble(
        default_value=upstream.active_request_bias, runtime_key="tidegate.active_request_bias"
    )
    policy = least_request_pb2.LeastRequest(active_request_bias=bias, **ramp)
    return _policy("envoy.load_balancing_policies.least_request", policy)


def _outlier_detection(upstream: Upstream) -> Any:
    """Faults in a row put a replica aside for a while; never more than half of a cluster, and never its last one."""
    faults = UInt32(value=upstream.eject_after)
    always, never = UInt32(value=100), UInt32(value=0)
    return outlier_detection_pb2.OutlierDetection(
        split_external_local_origin_errors=True,
        consecutive_5xx=faults,
        enforcing_consecutive_5xx=always,
        consecutive_local_origin_failure=faults,
        enforcing_consecutive_local_origin_failure=always,
        enforcing_consecutive_gateway_failure=never,
        enforcing_success_rate=never,
        enforcing_local_origin_success_rate=never,
        enforcing_failure_percentage=never,
        interval=seconds(1),
        base_ejection_time=seconds(upstream.eject_ms / 1000),
        max_ejection_time=seconds(max(300.0, upstream.eject_ms / 1000)),
        max_ejection_percent=UInt32(value=50),
    )


def _faults() -> Any:
    """What outlier detection counts of engines' answers: 5xx but for 503, which says that an engine is full."""
    status = string_pb2.StringMatcher(safe_regex=regex_pb2.RegexMatcher(regex="50[0-24-9]|5[1-9][0-9]"))
    header = route_components_pb2.HeaderMatcher(name=":status", string_match=status)
    match = matcher_pb2.HttpHeadersMatch(headers=[header])
    return http.HttpProtocolOptions.OutlierDetection(
        error_matcher=matcher_pb2.MatchPredicate(http_response_headers_match=match)
    )


def _override_host(fallback: Any) -> Any:
    """The endpoints that ext_proc listed, in order; by weight where it listed none that is known.

    The list comes from dynamic metadata alone: a client can send a header, and cannot send metadata.
    """
    source = override_host_pb2.OverrideHost.OverrideHostSource(
        metadata=metadata_pb2.MetadataKey(
            key=LB_METADATA_NAMESPACE,
            path=[metadata_pb2.MetadataKey.PathSegment(key=DESTINATION_ENDPOINT)],
        )
    )
    policy = override_host_pb2.OverrideHost(override_host_sources=[source], fallback_policy=fallback)
    return _policy("envoy.load_balancing_policies.override_host", policy)


def _engines_http(upstream: Upstream) -> Any:
    kinds = http.HttpProtocolOptions.ExplicitHttpConfig
    explicit = (
        kinds(http_protocol_options=protocol_pb2.Http1ProtocolOptions())
        if upstream.http is Http.HTTP1
        else kinds(http2_protocol_options=protocol_pb2.Http2ProtocolOptions())
    )
    return http.HttpProtocolOptions(
        explicit_http_config=explicit,
        common_http_protocol_options=protocol_pb2.HttpProtocolOptions(idle_timeout=seconds(ENGINE_IDLE_SECONDS)),
        outlier_detection=_faults() if upstream.eject_after else None,
    )


def _http2() -> Any:
    """HTTP/2 with pings, so that a silent ext_proc host is noticed within seconds."""
    keepalive = protocol_pb2.KeepaliveSettings(interval=seconds(5), timeout=seconds(2))
    options = protocol_pb2.Http2ProtocolOptions(
        connection_keepalive=keepalive, max_outbound_frames=UInt32(value=FRAMES_TO_OURSELVES)
    )
    explicit = http.HttpProtocolOptions.ExplicitHttpConfig(http2_protocol_options=options)
    return http.HttpProtocolOptions(explicit_http_config=explicit)
