"""Type URLs of the four resource types, their short names, and the order in which they are pushed."""

from __future__ import annotations

from typing import Final

PREFIX: Final = "type.googleapis.com/"
CLUSTER: Final = PREFIX + "envoy.config.cluster.v3.Cluster"
ENDPOINT: Final = PREFIX + "envoy.config.endpoint.v3.ClusterLoadAssignment"
LISTENER: Final = PREFIX + "envoy.config.listener.v3.Listener"
ROUTE: Final = PREFIX + "envoy.config.route.v3.RouteConfiguration"

# Make before break: what is referred to goes before what refers to it.
PUSH_ORDER: Final = (CLUSTER, ENDPOINT, LISTENER, ROUTE)

# A response of these types holds every subscribed resource, and leaving one out deletes it.
FULL_SET: Final = frozenset({CLUSTER, LISTENER})

SHORT_NAMES: Final = {CLUSTER: "cds", ENDPOINT: "eds", LISTENER: "lds", ROUTE: "rds"}
