"""TLS of gRPC servers and of channels, by files that may change while they run.

A handshake takes what the files hold at that moment; connections that are open go on with what they began with.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc

from tidegate.domain.errors import ConfigError
from tidegate.grpc_tls_files import TlsFiles, TlsMaterial, TlsMetrics, TlsWatch


def server_watch(cert: Path | None, key: Path | None, client_ca: Path | None, metrics: TlsMetrics) -> TlsWatch | None:
    """The files of `--tls-cert`, `--tls-key` and `--tls-client-ca`; None is plaintext. Raises ConfigError."""
    files = TlsFiles("--tls-", cert, key, client_ca, "client-ca")
    if cert is None and client_ca is not None:
        raise ConfigError(["--tls-client-ca needs --tls-cert and --tls-key: without them there is no TLS"])
    return TlsWatch("server", files, metrics) if cert is not None else None


def bind(server: Any, listen: str, tls: TlsWatch | None) -> int:
    """Have a grpc server listen on `host:port`, by TLS where given; its port. Raises RuntimeError if it is taken."""
    if tls is None:
        return int(server.add_insecure_port(listen))
    return int(server.add_secure_port(listen, server_credentials(tls)))


def server_credentials(tls: TlsWatch) -> Any:
    """Credentials for one server. With an authority, clients have to present a certificate that it signed."""
    given = tls.material

    def newer() -> Any:
        """Called by gRPC at each handshake, on a thread of its own; None is no change."""
        nonlocal given
        if (newest := tls.material) is given:
            return None
        given = newest
        return _configuration(newest)

    return grpc.dynamic_ssl_server_credentials(
        _configuration(given), newer, require_client_authentication=given.ca is not None
    )


@dataclass(frozen=True, slots=True)
class ChannelTls:
    """How a client reaches a server whose certificate has `name`: whom it trusts, and the pair that it presents."""

    watch: TlsWatch
    name: str

    def channel(self, address: str, options: Sequence[tuple[str, Any]]) -> Any:
        """A channel to `host:port` with what the files hold; one that is open does not change with them."""
        material = self.watch.material
        pair = material.pair
        credentials = grpc.ssl_channel_credentials(material.ca, pair and pair.key, pair and pair.chain)
        named = (*options, ("grpc.ssl_target_name_override", self.name))
        return grpc.aio.secure_channel(address, credentials, options=named)


def _configuration(material: TlsMaterial) -> Any:
    assert material.pair is not None
    pairs = [(material.pair.key, material.pair.chain)]
    return grpc.ssl_server_certificate_configuration(pairs, root_certificates=material.ca)
