"""Names that cross Tidegate's own wires: HTTP headers and Envoy dynamic metadata."""

from __future__ import annotations

from typing import Final

REASON_HEADER: Final = "x-tidegate-reason"
CLUSTER_HEADER: Final = "x-tidegate-cluster"
ENDPOINT_HEADER: Final = "x-tidegate-endpoint"
CONTROL_PREFIX: Final = "x-tidegate-"

# What clients may say. The others that begin with the prefix are stripped on arrival, these before the engine.
PRIORITY_HEADER: Final = "x-tidegate-priority"
CLASS_HEADER: Final = "x-tidegate-class"
EXPLAIN_HEADER: Final = "x-tidegate-explain"
VERSION_HEADER: Final = "x-tidegate-version"
CANARY_HEADER: Final = "x-canary"

# ext_proc writes `tidegate: {cluster: NAME}`; a route per cluster matches it. Clients cannot forge metadata.
METADATA_NAMESPACE: Final = "tidegate"
METADATA_CLUSTER: Final = "cluster"
METADATA_EXPLAIN: Final = "explain"
METADATA_SHADOWED: Final = "shadowed"

# What a request was, for the access log. A namespace of its own: Protobuf joins two answers by replacing namespaces.
LABELS_NAMESPACE: Final = "tidegate.request"
LABEL_MODEL: Final = "model"
LABEL_CLASS: Final = "class"
# The access log's tag that names the replica by the address that Redis knows it by.
REPLICA_TAG: Final = "replica"
ACCESS_LOG_NAME: Final = "tidegate"

# The override_host policy reads `envoy.lb: {x-gateway-destination-endpoint: "ip:port[,ip:port]"}`, best first.
LB_METADATA_NAMESPACE: Final = "envoy.lb"
DESTINATION_ENDPOINT: Final = "x-gateway-destination-endpoint"

# CEL attributes that Envoy sends with the first ext_proc message; an absent header's is left out.
PATH_ATTRIBUTE: Final = "request.path"
ADDRESS_ATTRIBUTE: Final = "source.address"
REQUEST_ID_ATTRIBUTE: Final = "request.id"


def header_attribute(name: str) -> str:
    """The CEL attribute of a header, by its lower-case name. It is the key under which Envoy sends the value.

    A header name holds no double quote and no backslash, so one kind of quotes always fits.
    """
    quote = '"' if "'" in name else "'"
    return f"request.headers[{quote}{name}{quote}]"


CONTENT_ENCODING_ATTRIBUTE: Final = header_attribute("content-encoding")
CONTENT_TYPE_ATTRIBUTE: Final = header_attribute("content-type")
