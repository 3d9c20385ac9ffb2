"""What is wrong with one resource although every field of it is allowed."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from typing import Any, Final

from envoy.config.cluster.v3 import cluster_pb2
from envoy.extensions.load_balancing_policies.ring_hash.v3 import ring_hash_pb2

MOST_WEIGHT: Final = 2**32 - 1


def bad_cluster(cluster: Any) -> Iterator[str]:
    """Envoy neither accepts nor refuses a push that holds a ring of more than its most: nothing comes after it."""
    if cluster.HasField("ring_hash_lb_config"):
        ring = cluster.ring_hash_lb_config
        yield from _bad_ring(cluster.name, ring.minimum_ring_size, ring.maximum_ring_size)
    for policy in cluster.load_balancing_policy.policies:
        ring = ring_hash_pb2.RingHash()
        if policy.typed_extension_config.typed_config.Unpack(ring):
            yield from _bad_ring(cluster.name, ring.minimum_ring_size, ring.maximum_ring_size)
    if cluster.type == cluster_pb2.Cluster.STATIC:
        for locality in cluster.load_assignment.endpoints:
            for endpoint in locality.lb_endpoints:
                address = endpoint.endpoint.address.socket_address.address
                if not is_ip(address):
                    yield f"cluster {cluster.name}: {address} is not an IP address"


def _bad_ring(name: str, least: Any, most: Any) -> Iterator[str]:
    """Envoy's defaults are 1024 and 8 Mi."""
    if (least.value or 1024) > (most.value or 8 * 1024 * 1024):
        yield f"cluster {name} has a ring of at least {least.value or 1024} and at most {most.value}"


def bad_assignment(assignment: Any) -> Iterator[str]:
    """Faults of addresses, weights and priorities."""
    seen: set[tuple[str, int]] = set()
    for locality in assignment.endpoints:
        total = 0
        for endpoint in locality.lb_endpoints:
            socket = endpoint.endpoint.address.socket_address
            address, port, weight = socket.address, socket.port_value, endpoint.load_balancing_weight.value
            place = f"{assignment.cluster_name}: {address}:{port}"
            if not is_ip(address):
                yield f"{place} is not an IP address"
            if not 1 <= port <= 65535:
                yield f"{place} has no valid port"
            if weight < 1:
                yield f"{place} has a weight below 1"
            if (address, port) in seen:
                yield f"{place} is there twice"
            seen.add((address, port))
            total += weight
        if total > MOST_WEIGHT:
            yield f"{assignment.cluster_name}: weights of a locality sum to {total}"
    yield from _bad_localities(assignment)


def _bad_localities(assignment: Any) -> Iterator[str]:
    """Envoy takes priorities with a gap; gRPC refuses them, and a locality that is there twice."""
    priorities = {locality.priority for locality in assignment.endpoints}
    if priorities and priorities != set(range(len(priorities))):
        yield f"{assignment.cluster_name} has priorities {sorted(priorities)}, which leave some out"
    keys = [(p.priority, p.locality.SerializeToString(deterministic=True)) for p in assignment.endpoints]
    if len(set(keys)) < len(keys):
        yield f"{assignment.cluster_name} has a locality twice"


def bad_routes(table: Any) -> Iterator[str]:
    """Faults of a route table: names and domains that are there twice, weights that sum to nothing."""
    names = [host.name for host in table.virtual_hosts]
    domains = [domain.lower() for host in table.virtual_hosts for domain in host.domains]
    for kind, words in (("virtual host", names), ("domain", domains)):
        for word in sorted({w for w in words if words.count(w) > 1}):
            yield f"routes {table.name} have the {kind} {word!r} twice"
    for host in table.virtual_hosts:
        for route in host.routes:
            if route.route.HasField("weighted_clusters"):
                total = sum(c.weight.value for c in route.route.weighted_clusters.clusters)
                if not 0 < total <= MOST_WEIGHT:
                    yield f"route {route.name} has cluster weights that sum to {total}"


def clusters_of(route: Any) -> Iterator[str]:
    """The names of the clusters that a route may send requests to, mirrored ones included."""
    action = route.route
    if action.WhichOneof("cluster_specifier") == "cluster":
        yield action.cluster
    for weighted in action.weighted_clusters.clusters:
        if weighted.name:
            yield weighted.name
    for mirror in action.request_mirror_policies:
        if mirror.cluster:
            yield mirror.cluster


def is_ip(text: str) -> bool:
    """Whether this is an address, and no name."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
