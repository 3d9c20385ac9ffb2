"""The discovery services by their gRPC names: one aggregated, one for each type."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from envoy.service.cluster.v3 import cds_pb2
from envoy.service.discovery.v3 import ads_pb2
from envoy.service.endpoint.v3 import eds_pb2
from envoy.service.listener.v3 import lds_pb2
from envoy.service.route.v3 import rds_pb2

from xds_server.subscription.protocols import DELTA, SOTW, Protocol
from xds_server.type_urls import CLUSTER, ENDPOINT, LISTENER, ROUTE

_OF_TYPE: Final = (
    (CLUSTER, cds_pb2, "ClusterDiscoveryService", "Clusters"),
    (ENDPOINT, eds_pb2, "EndpointDiscoveryService", "Endpoints"),
    (LISTENER, lds_pb2, "ListenerDiscoveryService", "Listeners"),
    (ROUTE, rds_pb2, "RouteDiscoveryService", "Routes"),
)
AGGREGATED: Final = ads_pb2.DESCRIPTOR.services_by_name["AggregatedDiscoveryService"].full_name
SERVICES: Final = (AGGREGATED, *(m.DESCRIPTOR.services_by_name[service].full_name for _, m, service, _ in _OF_TYPE))
"""Full names; a generated module is what makes reflection know its service."""


@dataclass(frozen=True, slots=True)
class Method:
    """A streaming method: its path, its protocol, and the one type that it serves, or None for all."""

    path: str
    protocol: Protocol
    only: str | None = None


def methods() -> Iterator[Method]:
    """Every streaming method. The unary Fetch methods are not served: nobody polls over gRPC."""
    yield Method(f"/{AGGREGATED}/StreamAggregatedResources", SOTW)
    yield Method(f"/{AGGREGATED}/DeltaAggregatedResources", DELTA)
    for name, (type_url, _, _, plural) in zip(SERVICES[1:], _OF_TYPE, strict=True):
        yield Method(f"/{name}/Stream{plural}", SOTW, type_url)
        yield Method(f"/{name}/Delta{plural}", DELTA, type_url)
