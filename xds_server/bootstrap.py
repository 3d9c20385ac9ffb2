"""What an Envoy is started with: where its xDS server is. Everything else comes over that stream."""

from __future__ import annotations

from typing import Any, Final

import yaml

from tidegate.domain.topology import split_address
from xds_server.resources.clusters import is_ip
from xds_server.resources.names import HTTP_OPTIONS

XDS_CLUSTER: Final = "xds"
MOST_CONNECTIONS: Final = 50_000

HEADER: Final = """\
# Envoy's bootstrap for docker compose. A test compares it with what xds_server.bootstrap writes:
#   python -m xds_server.bootstrap > envoy/bootstrap.yaml
"""


def bootstrap(
    xds_address: str, admin_address: str, *, node_id: str = "envoy", cluster: str = "tidegate"
) -> dict[str, Any]:
    """The bootstrap of one Envoy as plain data; JSON and YAML of it are both what Envoy reads.

    `node_id` is how `tidegate status` names this Envoy. Addresses are `host:port`; that of admin must be an IP.
    Raises ValueError when one is not.
    """
    return {
        "node": {"id": node_id, "cluster": cluster},
        "admin": {"address": _socket(*split_address(admin_address))},
        "dynamic_resources": {"ads_config": _ads(), "cds_config": _over_ads(), "lds_config": _over_ads()},
        "static_resources": {"clusters": [_xds_cluster(*split_address(xds_address))]},
        "overload_manager": _overload_manager(),
    }


def bootstrap_yaml(xds_address: str, admin_address: str, *, node_id: str = "envoy") -> str:
    """`bootstrap` as the text of a YAML file."""
    data = bootstrap(xds_address, admin_address, node_id=node_id)
    return str(yaml.safe_dump(data, sort_keys=False))


def compose_yaml() -> str:
    """The text of envoy/bootstrap.yaml."""
    return HEADER + bootstrap_yaml("xds:18000", "0.0.0.0:9901")


def _ads() -> dict[str, Any]:
    """State of the world; the Node, of tens of kilobytes, goes with the first request alone."""
    backoff = {"base_interval": "0.1s", "max_interval": "1s"}
    service = {"cluster_name": XDS_CLUSTER, "retry_policy": {"retry_back_off": backoff}}
    return {
        "api_type": "GRPC",
        "transport_api_version": "V3",
        "set_node_on_first_message_only": True,
        "grpc_services": [{"envoy_grpc": service}],
    }


def _over_ads() -> dict[str, Any]:
    return {"ads": {}, "resource_api_version": "V3"}


def _xds_cluster(host: str, port: int) -> dict[str, Any]:
    """Pings notice a server that went silent without closing its connection."""
    http2 = {"connection_keepalive": {"interval": "5s", "timeout": "3s"}}
    endpoint = {"endpoint": {"address": _socket(host, port)}}
    return {
        "name": XDS_CLUSTER,
        "type": "STATIC" if is_ip(host) else "STRICT_DNS",
        "connect_timeout": "1s",
        "load_assignment": {"cluster_name": XDS_CLUSTER, "endpoints": [{"lb_endpoints": [endpoint]}]},
        "typed_extension_protocol_options": {
            HTTP_OPTIONS: {
                "@type": f"type.googleapis.com/{HTTP_OPTIONS}",
                "explicit_http_config": {"http2_protocol_options": http2},
            }
        },
    }


def _overload_manager() -> dict[str, Any]:
    """A bound on clients' connections, without which Envoy warns, and can be made to run out of descriptors."""
    kind = "envoy.extensions.resource_monitors.downstream_connections.v3.DownstreamConnectionsConfig"
    config = {"@type": f"type.googleapis.com/{kind}", "max_active_downstream_connections": MOST_CONNECTIONS}
    name = "envoy.resource_monitors.global_downstream_max_connections"
    return {"resource_monitors": [{"name": name, "typed_config": config}]}


def _socket(host: str, port: int) -> dict[str, Any]:
    return {"socket_address": {"address": host, "port_value": port}}


if __name__ == "__main__":
    print(compose_yaml(), end="")  # noqa: T201
