"""Names that cross Tidegate's own wires: HTTP headers and Envoy dynamic metadata."""

from __future__ import annotations

from typing import Final

REASON_HEADER: Final = "x-tidegate-reason"
CLUSTER_HEADER: Final = "x-tidegate-cluster"
ENDPOINT_HEADER: Final = "x-tidegate-endpoint"
CONTROL_PREFIX: Final = "x-tidegate-"

# ext_proc writes `tidegate: {cluster: NAME}`; a route per cluster matches it. Clients cannot forge metadata.
METADATA_NAMESPACE: Final = "tidegate"
METADATA_CLUSTER: Final = "cluster"

# The override_host policy reads `envoy.lb: {x-gateway-destination-endpoint: "ip:port[,ip:port]"}`, best first.
LB_METADATA_NAMESPACE: Final = "envoy.lb"
DESTINATION_ENDPOINT: Final = "x-gateway-destination-endpoint"

# A CEL attribute that Envoy sends with the first ext_proc message; an absent header's is left out.
CONTENT_ENCODING_ATTRIBUTE: Final = "request.headers['content-encoding']"
