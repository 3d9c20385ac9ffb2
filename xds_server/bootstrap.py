"""What an Envoy is started with: where its xDS server is. Everything else comes over that stream."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import yaml

from tidegate.domain.topology import split_address
from xds_server.groups import GROUP_METADATA
from xds_server.resources.names import HTTP_OPTIONS
from xds_server.resources.tls import AUTHORITY, IDENTITY, is_ip, secret_path, server_name_indication

XDS_CLUSTER: Final = "xds"
MOST_CONNECTIONS: Final = 50_000

HEADER: Final = """\
# Envoy's bootstrap for docker compose. A test compares it with what xds_server.bootstrap writes:
#   python -m xds_server.bootstrap > envoy/bootstrap.yaml
"""


Protocol = Literal["delta", "sotw"]
_TLS: Final = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3."


@dataclass(frozen=True, slots=True, kw_only=True)
class XdsTls:
    """TLS to the xDS servers. `name` is one of their certificates', `folder` where Envoy finds its secrets.

    `mutual`: Envoy presents a certificate.
    """

    name: str
    folder: str
    mutual: bool = False


def bootstrap(
    xds_address: str,
    admin_address: str,
    *,
    node_id: str = "envoy",
    cluster: str = "tidegate",
    group: str | None = None,
    protocol: Protocol = "delta",
    tls: XdsTls | None = None,
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
        "static_resources": {"clusters": [_xds_cluster(servers) | _transport(tls)]},
        "overload_manager": _overload_manager(),
    }


def bootstrap_yaml(xds_address: str, admin_address: str, **more: Any) -> str:
    """`bootstrap`, with its arguments, as the text of a YAML file."""
    return str(yaml.safe_dump(bootstrap(xds_address, admin_address, **more), sort_keys=False))


def secrets(ca: str, cert: str | None = None, key: str | None = None) -> dict[str, str]:
    """The files that the bootstrap and ext_proc's cluster name, by file name; paths are as Envoy finds them.

    Envoy reads the certificates again when a file is renamed into their folder.
    """
    found = {AUTHORITY: {"validation_context": {"trusted_ca": _file(ca), **_watched(ca)}}}
    if cert and key:
        pair = {"certificate_chain": _file(cert), "private_key": _file(key), **_watched(cert)}
        found[IDENTITY] = {"tls_certificate": pair}
    return {f"{name}.yaml": _secret_yaml(name, content) for name, content in found.items()}


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


def _transport(tls: XdsTls | None) -> dict[str, Any]:
    if tls is None:
        return {}
    kind = "IP_ADDRESS" if is_ip(tls.name) else "DNS"
    named = {"match_typed_subject_alt_names": [{"san_type": kind, "matcher": {"exact": tls.name}}]}
    authority = {"default_validation_context": named, "validation_context_sds_secret_config": _sds(tls, AUTHORITY)}
    context: dict[str, Any] = {
        "tls_params": {"tls_minimum_protocol_version": "TLSv1_2", "tls_maximum_protocol_version": "TLSv1_3"},
        "alpn_protocols": ["h2"],
        "combined_validation_context": authority,
    }
    if tls.mutual:
        context["tls_certificate_sds_secret_configs"] = [_sds(tls, IDENTITY)]
    config = {"@type": f"{_TLS}UpstreamTlsContext", "sni": server_name_indication(tls.name)}
    typed = {**config, "common_tls_context": context}
    return {"transport_socket": {"name": "envoy.transport_sockets.tls", "typed_config": typed}}


def _sds(tls: XdsTls, name: str) -> dict[str, Any]:
    source = {"path_config_source": {"path": secret_path(tls.folder, name)}, "resource_api_version": "V3"}
    return {"name": name, "sds_config": source}


def _secret_yaml(name: str, content: Mapping[str, Any]) -> str:
    resource = {"@type": f"{_TLS}Secret", "name": name, **content}
    return str(yaml.safe_dump({"resources": [resource]}, sort_keys=False))


def _file(path: str) -> dict[str, Any]:
    return {"filename": path}


def _watched(path: str) -> dict[str, Any]:
    return {"watched_directory": {"path": str(Path(path).parent)}}


def _overload_manager() -> dict[str, Any]:
    """A bound on clients' connections, without which Envoy warns, and can be made to run out of descriptors."""
    kind = "envoy.extensions.resource_monitors.downstream_connections.v3.DownstreamConnectionsConfig"
    config = {"@type": f"type.googleapis.com/{kind}", "max_active_downstream_connections": MOST_CONNECTIONS}
    name = "envoy.resource_monitors.global_downstream_max_connections"
    return {"resource_monitors": [{"name": name, "typed_config": config}]}


def _socket(host: str, port: int) -> dict[str, Any]:
    return {"socket_address": {"address": host, "port_value": port}}


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a bootstrap, or write it with Envoy's secrets into a folder. Without arguments: that of docker compose."""
    parser = _parser()
    told = vars(parser.parse_args(arguments))
    out, at, name = told.pop("out"), told.pop("secrets_at"), told.pop("tls_name")
    ca, cert, key = (told.pop(f"tls_{part}") for part in ("ca", "cert", "key"))
    xds, admin = told.pop("xds"), told.pop("admin")
    if (cert is None) != (key is None) or (cert and not ca) or (ca and not out):
        parser.error("TLS takes --tls-ca and --out, and for mutual TLS both --tls-cert and --tls-key")
    tls = None
    if ca:
        host, _ = split_address(xds.partition(",")[0])
        tls = XdsTls(name=name or host, folder=at or str(out.resolve()), mutual=cert is not None)
    text = HEADER * (out is None) + bootstrap_yaml(xds, admin, tls=tls, **told)
    if out is None:
        print(text, end="")  # noqa: T201
        return
    files = {"bootstrap.yaml": text, **(secrets(ca, cert, key) if ca else {})}
    for name, content in files.items():
        (out / name).write_text(content)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Print the bootstrap of an Envoy.")
    parser.add_argument(
        "--xds", default="xds:18000", help="host:port of the xDS server, or several with commas between"
    )
    parser.add_argument("--admin", default="0.0.0.0:9901", help="IP:port of Envoy's admin page")
    parser.add_argument("--node-id", default="envoy", help="how tidegate status names this Envoy")
    parser.add_argument("--group", help="whose configuration this Envoy gets")
    parser.add_argument("--protocol", choices=("delta", "sotw"), default="delta", help="sotw: state of the world")
    parser.add_argument("--out", type=Path, help="write bootstrap.yaml and the secrets' files into this folder")
    parser.add_argument("--secrets-at", help="that folder as Envoy finds it; unset: as it is here")
    parser.add_argument("--tls-ca", help="authority of the servers' certificates, as Envoy finds the file; with --out")
    parser.add_argument("--tls-cert", help="certificate that Envoy presents, as Envoy finds the file")
    parser.add_argument("--tls-key", help="its private key, as Envoy finds the file")
    parser.add_argument("--tls-name", help="name or IP that the servers' certificates have; unset: the first host")
    return parser


if __name__ == "__main__":
    main()
