"""Names that resources use to refer to one another and to Envoy's extensions."""

from __future__ import annotations

from typing import Final

LISTENER_NAME: Final = "gateway"
ROUTES_NAME: Final = "gateway"
EXT_PROC_CLUSTER: Final = "tidegate_ext_proc"
OUTCOMES_CLUSTER: Final = "tidegate_outcomes"
OTLP_CLUSTER: Final = "tidegate_otlp"

HEADER_MUTATION_FILTER: Final = "envoy.filters.http.header_mutation"
WHOLE_BODY_FILTER: Final = "tidegate.whole_body"
JSON_TO_METADATA_FILTER: Final = "envoy.filters.http.json_to_metadata"
EXT_PROC_FILTER: Final = "envoy.filters.http.ext_proc"
BUFFER_FILTER: Final = "envoy.filters.http.buffer"
FAULT_FILTER: Final = "envoy.filters.http.fault"
ROUTER_FILTER: Final = "envoy.filters.http.router"
HCM_FILTER: Final = "envoy.filters.network.http_connection_manager"
HTTP_OPTIONS: Final = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
