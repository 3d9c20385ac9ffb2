"""Desired state → Envoy's resources: one named function a resource, pure and deterministic.

No I/O, no clock, no knowledge of streams or versions. `build` is the whole entry point; `xds_server.app` calls
it and has `consistency.check` look at the result before it is served.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from xds_server.desired import Desired
from xds_server.resources.clusters import ext_proc_cluster, model_cluster, otlp_cluster, outcomes_cluster
from xds_server.resources.endpoints import assignment
from xds_server.resources.listener import gateway_listener
from xds_server.resources.names import LISTENER_NAME, ROUTES_NAME
from xds_server.resources.routes import gateway_routes
from xds_server.type_urls import CLUSTER, ENDPOINT, LISTENER, ROUTE

Messages = Mapping[str, Mapping[str, Any]]
"""Protobuf messages by type URL and name."""


def build(desired: Desired) -> Messages:
    """Every resource of `desired`. Raises ValueError when two of one type have the same name."""
    own = [
        ext_proc_cluster(desired),
        *([outcomes_cluster(desired.outcomes)] if desired.outcomes else []),
        *([otlp_cluster(desired.collector)] if desired.collector else []),
    ]
    clusters = [*own, *(model_cluster(c) for c in desired.clusters)]
    return {
        CLUSTER: _by_name((c.name, c) for c in clusters),
        ENDPOINT: _by_name((c.name, assignment(c)) for c in desired.clusters),
        LISTENER: _by_name([(LISTENER_NAME, gateway_listener(desired))]),
        ROUTE: _by_name([(ROUTES_NAME, gateway_routes(desired))]),
    }


def _by_name(named: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    resources: dict[str, Any] = {}
    for name, message in named:
        if name in resources:
            raise ValueError(f"two resources are named {name!r}")
        resources[name] = message
    return resources
