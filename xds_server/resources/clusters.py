"""CDS: one cluster a model pool, and the one of ext_proc."""

from __future__ import annotations

import ipaddress
from typing import Any, Final

from envoy.config.cluster.v3 import circuit_breaker_pb2, cluster_pb2
from envoy.config.core.v3 import base_pb2, config_source_pb2, extension_pb2, protocol_pb2
from envoy.config.endpoint.v3 import endpoint_components_pb2, endpoint_pb2
from envoy.extensions.load_balancing_policies.override_host.v3 import override_host_pb2
from envoy.extensions.load_balancing_policies.round_robin.v3 import round_robin_pb2
from envoy.extensions.upstreams.http.v3 import http_protocol_options_pb2 as http
from envoy.type.metadata.v3 import metadata_pb2
from envoy.type.v3 import percent_pb2

from tidegate.domain.topology import LbPolicy
from tidegate.domain.wire import DESTINATION_ENDPOINT, LB_METADATA_NAMESPACE
from xds_server.desired import Desired, DesiredCluster
from xds_server.resources.endpoints import socket_address
from xds_server.resources.names import EXT_PROC_CLUSTER, HTTP_OPTIONS
from xds_server.resources.wrap import UInt32, packed, seconds

CONNECT_TIMEOUT_SECONDS: Final = 1.0
# Envoy takes 10,000 frames of 16 KiB that wait to be sent for a flood and cuts the connection with every request on
# it. 64 bodies of 10 MiB at once are 40,000; the peer is our own.
FRAMES_TO_OURSELVES: Final = 10_000_000
# uvicorn, which serves most engines, closes an idle connection after 5 s. Envoy lets go first: a request that
# meets a closing connection fails, and is not repeated, since its generation may have started.
ENGINE_IDLE_SECONDS: Final = 4.0
# Envoy's default of 1024 (and 3 retries) would refuse what the engines could queue. Admission is ext_proc's.
MOST_AT_ONCE: Final = 100_000


def model_cluster(cluster: DesiredCluster) -> Any:
    """The Cluster of a model pool, its endpoints by EDS over the same ADS stream."""
    return cluster_pb2.Cluster(
        name=cluster.name,
        type=cluster_pb2.Cluster.EDS,
        eds_cluster_config=cluster_pb2.Cluster.EdsClusterConfig(eds_config=over_ads()),
        connect_timeout=seconds(CONNECT_TIMEOUT_SECONDS),
        circuit_breakers=_circuit_breakers(),
        load_balancing_policy=_override_host() if cluster.lb is LbPolicy.PICK else _round_robin(),
        common_lb_config=_without_panic(),
        typed_extension_protocol_options={HTTP_OPTIONS: packed(_http1())},
    )


def ext_proc_cluster(desired: Desired) -> Any:
    """The Cluster at which Envoy finds ext_proc: gRPC, by address or by DNS name."""
    endpoint = endpoint_components_pb2.Endpoint(address=socket_address(desired.ext_proc_host, desired.ext_proc_port))
    locality = endpoint_components_pb2.LocalityLbEndpoints(
        lb_endpoints=[endpoint_components_pb2.LbEndpoint(endpoint=endpoint)]
    )
    return cluster_pb2.Cluster(
        name=EXT_PROC_CLUSTER,
        type=cluster_pb2.Cluster.STATIC if is_ip(desired.ext_proc_host) else cluster_pb2.Cluster.STRICT_DNS,
        load_assignment=endpoint_pb2.ClusterLoadAssignment(cluster_name=EXT_PROC_CLUSTER, endpoints=[locality]),
        connect_timeout=seconds(CONNECT_TIMEOUT_SECONDS),
        circuit_breakers=_circuit_breakers(),
        common_lb_config=_without_panic(),
        typed_extension_protocol_options={HTTP_OPTIONS: packed(_http2())},
    )


def is_ip(host: str) -> bool:
    """Whether the host is an address and needs no resolution."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def over_ads() -> Any:
    """The config source that means: on the same aggregated stream."""
    return config_source_pb2.ConfigSource(
        ads=config_source_pb2.AggregatedConfigSource(), resource_api_version=config_source_pb2.V3
    )


def _without_panic() -> Any:
    """When every endpoint drains there is none: without this Envoy would send traffic to all of them."""
    return cluster_pb2.Cluster.CommonLbConfig(healthy_panic_threshold=percent_pb2.Percent(value=0))


def _circuit_breakers() -> Any:
    thresholds = [
        circuit_breaker_pb2.CircuitBreakers.Thresholds(
            priority=priority,
            max_connections=UInt32(value=MOST_AT_ONCE),
            max_pending_requests=UInt32(value=MOST_AT_ONCE),
            max_requests=UInt32(value=MOST_AT_ONCE),
            max_retries=UInt32(value=MOST_AT_ONCE),
        )
        for priority in (base_pb2.DEFAULT, base_pb2.HIGH)
    ]
    return circuit_breaker_pb2.CircuitBreakers(thresholds=thresholds)


def _policy(name: str, config: Any) -> Any:
    extension = extension_pb2.TypedExtensionConfig(name=name, typed_config=packed(config))
    policy = cluster_pb2.LoadBalancingPolicy.Policy(typed_extension_config=extension)
    return cluster_pb2.LoadBalancingPolicy(policies=[policy])


def _round_robin() -> Any:
    """Weighted round robin: of the policies that know weights, the one with exact shares."""
    return _policy("envoy.load_balancing_policies.round_robin", round_robin_pb2.RoundRobin())


def _override_host() -> Any:
    """The endpoints that ext_proc listed, in order; by weight where it listed none that is known.

    The list comes from dynamic metadata alone: a client can send a header, and cannot send metadata.
    """
    source = override_host_pb2.OverrideHost.OverrideHostSource(
        metadata=metadata_pb2.MetadataKey(
            key=LB_METADATA_NAMESPACE,
            path=[metadata_pb2.MetadataKey.PathSegment(key=DESTINATION_ENDPOINT)],
        )
    )
    policy = override_host_pb2.OverrideHost(override_host_sources=[source], fallback_policy=_round_robin())
    return _policy("envoy.load_balancing_policies.override_host", policy)


def _http1() -> Any:
    explicit = http.HttpProtocolOptions.ExplicitHttpConfig(http_protocol_options=protocol_pb2.Http1ProtocolOptions())
    return http.HttpProtocolOptions(
        explicit_http_config=explicit,
        common_http_protocol_options=protocol_pb2.HttpProtocolOptions(idle_timeout=seconds(ENGINE_IDLE_SECONDS)),
    )


def _http2() -> Any:
    """HTTP/2 with pings, so that a silent ext_proc host is noticed within seconds."""
    keepalive = protocol_pb2.KeepaliveSettings(interval=seconds(5), timeout=seconds(2))
    options = protocol_pb2.Http2ProtocolOptions(
        connection_keepalive=keepalive, max_outbound_frames=UInt32(value=FRAMES_TO_OURSELVES)
    )
    explicit = http.HttpProtocolOptions.ExplicitHttpConfig(http2_protocol_options=options)
    return http.HttpProtocolOptions(explicit_http_config=explicit)
