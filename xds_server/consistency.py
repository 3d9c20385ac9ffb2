"""The check before publishing: Envoy refuses a whole response for one bad resource, or accepts it and fails later."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Any, Final

from envoy.config.cluster.v3 import cluster_pb2
from envoy.extensions.access_loggers.grpc.v3 import als_pb2
from envoy.extensions.filters.http.ext_proc.v3 import ext_proc_pb2
from envoy.extensions.filters.network.http_connection_manager.v3 import http_connection_manager_pb2 as hcm

from tidegate.domain.errors import TidegateError
from xds_server.constraints import broken_constraints
from xds_server.faults import bad_assignment, bad_cluster, bad_routes, clusters_of, is_ip
from xds_server.type_urls import CLUSTER, ENDPOINT, LISTENER, ROUTE, SHORT_NAMES

MOST_FAULTS: Final = 20

Messages = Mapping[str, Mapping[str, Any]]


class InconsistentResources(TidegateError):  # noqa: N818 - names what the resources are
    """Resources that must not be served. The text names every fault."""


def check(messages: Messages, passed: AbstractSet[tuple[str, str]] = frozenset()) -> None:
    """Raise InconsistentResources when Envoy would refuse these resources or could not serve by them.

    `passed` are type URLs and names of resources that passed as they are: only what they refer to is looked at again.
    """
    fresh = {t: [m for n, m in of_type.items() if (t, n) not in passed] for t, of_type in messages.items()}
    faults = [
        *_misnamed(messages),
        *_without_assignment(messages),
        *(f for t in (CLUSTER, LISTENER, ROUTE) for m in fresh.get(t, ()) for f in _broken(t, m)),
        *(f for c in fresh[CLUSTER] for f in bad_cluster(c)),
        *(f for a in fresh[ENDPOINT] for f in bad_assignment(a)),
        *(f for r in fresh[ROUTE] for f in bad_routes(r)),
        *(f for r in messages[ROUTE].values() for f in _unknown_clusters(r, messages[CLUSTER])),
        *(f for one in messages[LISTENER].values() for f in _bad_listener(one, messages)),
        *_one_place(messages[LISTENER]),
    ]
    if faults:
        raise InconsistentResources("; ".join(faults[:MOST_FAULTS]))


def _broken(type_url: str, message: Any) -> Iterator[str]:
    for path, what in broken_constraints(message):
        yield f"{SHORT_NAMES[type_url]} {message.name!r}: {path} {what}"


def _misnamed(messages: Messages) -> Iterator[str]:
    """A resource is filed under the name that it bears itself, which is never empty."""
    for type_url, resources in messages.items():
        for name, message in resources.items():
            own = message.cluster_name if type_url == ENDPOINT else message.name
            if not name or name != own:
                yield f"{SHORT_NAMES[type_url]} {name!r} calls itself {own!r}"


def _without_assignment(messages: Messages) -> Iterator[str]:
    """An EDS cluster without an assignment would warm for 15 s, and hold back every other change meanwhile."""
    for name, cluster in messages[CLUSTER].items():
        if cluster.type == cluster_pb2.Cluster.EDS and name not in messages[ENDPOINT]:
            yield f"cluster {name} has no endpoint assignment"
    for name in messages[ENDPOINT]:
        if name not in messages[CLUSTER]:
            yield f"endpoints are assigned to {name}, which is no cluster"


def _unknown_clusters(routes: Any, clusters: Mapping[str, Any]) -> Iterator[str]:
    """Envoy accepts a route to a cluster that it does not have, and answers 503 on it."""
    for host in routes.virtual_hosts:
        for route in host.routes:
            for name in clusters_of(route):
                if name not in clusters:
                    yield f"route {route.name} goes to {name}, which is no cluster"


def _bad_listener(listener: Any, messages: Messages) -> Iterator[str]:
    socket = listener.address.socket_address
    if not is_ip(socket.address) or not 1 <= socket.port_value <= 65535:
        yield f"listener {listener.name} cannot listen on {socket.address}:{socket.port_value}"
    for manager in _unpacked(listener, hcm.HttpConnectionManager):
        if manager.rds.route_config_name not in messages[ROUTE]:
            yield f"listener {listener.name} uses routes {manager.rds.route_config_name}, which are not there"
        for logged in manager.access_log:
            yield from _log_to_nobody(listener.name, logged, messages[CLUSTER])
        for processor in _unpacked_filters(manager, ext_proc_pb2.ExternalProcessor):
            cluster = processor.grpc_service.envoy_grpc.cluster_name
            if cluster not in messages[CLUSTER]:
                yield f"listener {listener.name} calls ext_proc at {cluster}, which is no cluster"


def _log_to_nobody(listener: str, logged: Any, clusters: Mapping[str, Any]) -> Iterator[str]:
    config = als_pb2.HttpGrpcAccessLogConfig()
    if logged.typed_config.Unpack(config):
        cluster = config.common_config.grpc_service.envoy_grpc.cluster_name
        if cluster not in clusters:
            yield f"listener {listener} logs to {cluster}, which is no cluster"


def _one_place(listeners: Mapping[str, Any]) -> Iterator[str]:
    """Envoy refuses a second listener at an address."""
    seen: dict[tuple[str, int], str] = {}
    for name, listener in listeners.items():
        socket = listener.address.socket_address
        other = seen.setdefault((socket.address, socket.port_value), name)
        if other != name:
            yield f"listeners {other} and {name} are both at {socket.address}:{socket.port_value}"


def _unpacked(listener: Any, kind: Any) -> Iterator[Any]:
    for chain in listener.filter_chains:
        yield from _of_kind((f.typed_config for f in chain.filters), kind)


def _unpacked_filters(manager: Any, kind: Any) -> Iterator[Any]:
    yield from _of_kind((f.typed_config for f in manager.http_filters), kind)


def _of_kind(configs: Iterator[Any], kind: Any) -> Iterator[Any]:
    for config in configs:
        message = kind()
        if config.Unpack(message):
            yield message
