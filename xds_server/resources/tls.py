"""TLS towards whom Envoy calls: engines by paths of the file, ext_proc by the secrets beside Envoy's bootstrap.

Envoy reads a file that a cluster names once, when the cluster comes; what it reads again as files change are secrets
(SDS), one a file. So the pair that Envoy presents to Tidegate is a secret.
"""

from __future__ import annotations

import ipaddress
from typing import Any, Final

from envoy.config.core.v3 import base_pb2, config_source_pb2
from envoy.extensions.transport_sockets.tls.v3 import common_pb2, secret_pb2, tls_pb2
from envoy.type.matcher.v3 import string_pb2

from tidegate.domain.upstream import Http, UpstreamTls
from xds_server.desired import PickerTls
from xds_server.resources.wrap import packed

SYSTEM_BUNDLE: Final = "/etc/ssl/certs/ca-certificates.crt"
"""Where Debian and Ubuntu keep the system's authorities; Envoy's own images are built on them."""

AUTHORITY: Final = "authority"
IDENTITY: Final = "identity"

_VERSIONS: Final = common_pb2.TlsParameters(
    tls_minimum_protocol_version=common_pb2.TlsParameters.TLSv1_2,
    tls_maximum_protocol_version=common_pb2.TlsParameters.TLSv1_3,
)


def secret_path(folder: str, secret: str) -> str:
    """The file that holds the secret."""
    return f"{folder.rstrip('/')}/{secret}.yaml"


def to_engines(tls: UpstreamTls, speaks: Http) -> Any:
    """The transport socket of a model pool."""
    context = _context("h2" if speaks is Http.HTTP2 else "http/1.1")
    context.validation_context.CopyFrom(_named(tls.name))
    context.validation_context.trusted_ca.filename = tls.ca or SYSTEM_BUNDLE
    if tls.cert is not None and tls.key is not None:
        pair = context.tls_certificates.add()
        pair.certificate_chain.filename, pair.private_key.filename = tls.cert, tls.key
    return _socket(tls.name, context)


def to_picker(tls: PickerTls) -> Any:
    """The transport socket of ext_proc's cluster."""
    context = _context("h2")
    combined = context.combined_validation_context
    combined.default_validation_context.CopyFrom(_named(tls.name))
    combined.validation_context_sds_secret_config.CopyFrom(_secret(tls.secrets, AUTHORITY))
    if tls.mutual:
        context.tls_certificate_sds_secret_configs.append(_secret(tls.secrets, IDENTITY))
    return _socket(tls.name, context)


def server_name_indication(name: str) -> str:
    """The name as SNI; none where it is an IP, which SNI cannot hold."""
    return "" if is_ip(name) else name


def is_ip(host: str) -> bool:
    """Whether the host is an address and needs no resolution."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _context(alpn: str) -> Any:
    return tls_pb2.CommonTlsContext(tls_params=_VERSIONS, alpn_protocols=[alpn])


def _named(name: str) -> Any:
    """A certificate counts if it has this name, exactly."""
    kinds = common_pb2.SubjectAltNameMatcher
    matcher = kinds(
        san_type=kinds.IP_ADDRESS if is_ip(name) else kinds.DNS, matcher=string_pb2.StringMatcher(exact=name)
    )
    return common_pb2.CertificateValidationContext(match_typed_subject_alt_names=[matcher])


def _secret(folder: str, name: str) -> Any:
    source = config_source_pb2.PathConfigSource(path=secret_path(folder, name))
    config = config_source_pb2.ConfigSource(path_config_source=source, resource_api_version=config_source_pb2.V3)
    return secret_pb2.SdsSecretConfig(name=name, sds_config=config)


def _socket(name: str, context: Any) -> Any:
    upstream = tls_pb2.UpstreamTlsContext(sni=server_name_indication(name), common_tls_context=context)
    return base_pb2.TransportSocket(name="envoy.transport_sockets.tls", typed_config=packed(upstream))
