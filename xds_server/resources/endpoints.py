"""EDS: one assignment a cluster. A weight or a drain changes nothing else."""

from __future__ import annotations

from typing import Any

from envoy.config.core.v3 import address_pb2, base_pb2, health_check_pb2
from envoy.config.endpoint.v3 import endpoint_components_pb2 as components
from envoy.config.endpoint.v3 import endpoint_pb2

from xds_server.desired import DesiredCluster, DesiredEndpoint
from xds_server.resources.wrap import UInt32


def assignment(cluster: DesiredCluster) -> Any:
    """The ClusterLoadAssignment of a cluster: a locality for each priority and zone, endpoints in the order given.

    Priorities are numbered without gaps, which gRPC's client would refuse.
    """
    neutral = neutral_weight(cluster)
    levels = sorted({e.priority for e in cluster.endpoints})
    places: dict[tuple[int, str], list[DesiredEndpoint]] = {}
    for endpoint in cluster.endpoints:
        places.setdefault((levels.index(endpoint.priority), endpoint.zone), []).append(endpoint)
    localities = [
        components.LocalityLbEndpoints(
            lb_endpoints=[_lb_endpoint(e, neutral) for e in endpoints],
            load_balancing_weight=UInt32(value=len(endpoints) if len(places) > 1 else 1),
            priority=level,
            locality=base_pb2.Locality(zone=zone) if zone else None,
        )
        for (level, zone), endpoints in sorted(places.items())
    ]
    return endpoint_pb2.ClusterLoadAssignment(cluster_name=cluster.name, endpoints=localities)


def neutral_weight(cluster: DesiredCluster) -> int:
    """What an endpoint of unknown weight gets: the rounded mean of its siblings' known weights above 0, else 1."""
    known = [e.weight for e in cluster.endpoints if e.weight]
    return max(1, round(sum(known) / len(known))) if known else 1


def socket_address(ip: str, port: int) -> Any:
    """A TCP address. Envoy refuses names here except in DNS clusters."""
    return address_pb2.Address(socket_address=address_pb2.SocketAddress(address=ip, port_value=port))


def _lb_endpoint(endpoint: DesiredEndpoint, neutral: int) -> Any:
    """Envoy refuses weight 0, so an endpoint without new traffic is DRAINING and its weight means nothing."""
    weight = neutral if endpoint.weight is None else max(1, endpoint.weight)
    status = health_check_pb2.HEALTHY if endpoint.serves else health_check_pb2.DRAINING
    return components.LbEndpoint(
        endpoint=components.Endpoint(address=socket_address(endpoint.ip, endpoint.port), hostname=_identity(endpoint)),
        health_status=status,
        load_balancing_weight=UInt32(value=weight),
    )


def _identity(endpoint: DesiredEndpoint) -> str:
    """The name that `x-tidegate-endpoint` shows, where it differs from the address."""
    plain = f"[{endpoint.ip}]:{endpoint.port}" if ":" in endpoint.ip else f"{endpoint.ip}:{endpoint.port}"
    return "" if endpoint.address == plain else endpoint.address
