"""What an Envoy is started with: where its xDS server is. Everything else comes over that stream."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any, Final, Literal

import yaml

from tidegate.domain.topology import split_address
from xds_server.groups import GROUP_METADATA
from xds_server.resources.clusters import is_ip
from xds_server.resources.names import HTTP_OPTIONS

XDS_CLUSTER: Final = "xds"
MOST_CONNECTIONS: Final = 50_000

HEADER: Final = """\
# Envoy's bootstrap for docker compose. A test compares it with what xds_server.bootstrap writes:
#   python -m xds_server.bootstrap > envoy/bootstrap.yaml
"""


Protocol = Literal["delta", "sotw"]


def bootstrap(
    xds_address: str,
    admin_address: str,
    *,
    node_id: str = "envoy",
    cluster: str = "tidegate",
    group: str | None = None,
    protocol: Protocol = "delta",
) -> dict[str, Any]:
    """The bootstrap of one Envoy as plain data; JSON and YAML of it are both what Envoy reads.

    `node_id` is how `tidegate status` names this Envoy; `group`, else `cluster`, says whose configuration it gets.
    `xds_address` is one `host:port` or several with commas between; that of admin is one and must be an IP.
    Raises ValueError when one is not.
    """
    metadata = {"metadata": {GROUP_METADATA: group}} if group else {}
    servers = [split_address(address) for address in xds_address.split(",")]
    return {
        "node": {"id": node_id, "cluster": cluster, **metadata},
        "admin": {"address": _socket(*split_address(admin_address))},
        "dynamic_resources": {"ads_config": _ads(protocol), "cds_config": _over_ads(), "lds_config": _over_ads()},
        "static_resources": {"clusters": [_xds_cluster(servers)]},
        "overload_manager": _overload_manager(),
    }


def bootstrap_yaml(xds_address: str, admin_address: str, **more: Any) -> str:
    """`bootstrap`, with its arguments, as the text of a YAML file."""
    return str(yaml.safe_dump(bootstrap(xds_address, admin_address, **more), sort_keys=False))


def compose_yaml() -> str:
    """The text of envoy/bootstrap.yaml."""
    return HEADER + bootstrap_yaml("xds:18000", "0.0.0.0:9901")


def _ads(protocol: Protocol) -> dict[str, Any]:
    """The Node, of tens of kilobytes, goes with the first request alone."""
    backoff = {"base_interval": "0.1s", "max_interval": "1s"}
    service = {"cluster_name": XDS_CLUSTER, "retry_policy": {"retry_back_off": backoff}}
    return {
        "api_type": "DELTA_GRPC" if protocol == "delta" else "GRPC",
        "transport_api_version": "V3",
        "set_node_on_first_message_only": True,
        "grpc_services": [{"envoy_grpc": service}],
    }


def _over_ads() -> dict[str, Any]:
    return {"ads": {}, "resource_api_version": "V3"}


def _xds_cluster(servers: Sequence[tuple[str, int]]) -> dict[str, Any]:
    """Any of the servers will do: versions are hashes, so that they agree.

    Pings notice a server that went silent without closing its connection.
    """
    http2 = {"connection_keepalive": {"interval": "5s", "timeout": "3s"}}
    endpoints = [{"endpoint": {"address": _socket(host, port)}} for host, port in servers]
    return {
        "name": XDS_CLUSTER,
        "type": "STATIC" if all(is_ip(host) for host, _ in servers) else "STRICT_DNS",
        "connect_timeout": "1s",
        "load_assignment": {"cluster_name": XDS_CLUSTER, "endpoints": [{"lb_endpoints": endpoints}]},
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


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a bootstrap. Without arguments: that of docker compose."""
    parser = argparse.ArgumentParser(description="Print the bootstrap of an Envoy.")
    parser.add_argument(
        "--xds", default="xds:18000", help="host:port of the xDS server, or several with commas between"
    )
    parser.add_argument("--admin", default="0.0.0.0:9901", help="IP:port of Envoy's admin page")
    parser.add_argument("--node-id", default="envoy", help="how tidegate status names this Envoy")
    parser.add_argument("--group", help="whose configuration this Envoy gets")
    parser.add_argument("--protocol", choices=("delta", "sotw"), default="delta", help="sotw: state of the world")
    told = vars(parser.parse_args(arguments))
    print(HEADER + bootstrap_yaml(told.pop("xds"), told.pop("admin"), **told), end="")  # noqa: T201


if __name__ == "__main__":
    main()
