"""TLS of an asyncio server that speaks HTTP/2, by files that may change while it runs."""

from __future__ import annotations

import ssl
import tempfile
from pathlib import Path
from typing import Any

from tidegate.grpc_tls_files import TlsMaterial, TlsWatch


def server_context(tls: TlsWatch) -> ssl.SSLContext:
    """A context whose every handshake takes what the files hold at that moment.

    With an authority, clients have to present a certificate that it signed. Whether there is one stays as it was.
    """
    newest = _Newest(tls)
    outer = newest.context()

    def choose(connection: Any, _name: str | None, _outer: ssl.SSLContext) -> None:
        connection.context = newest.context()

    outer.sni_callback = choose
    return outer


class _Newest:
    """The context of the newest material, made when that changes."""

    def __init__(self, tls: TlsWatch) -> None:
        self._tls = tls
        self._of = tls.material
        self._context = _context(self._of)

    def context(self) -> ssl.SSLContext:
        if self._tls.material is not self._of:
            self._of = self._tls.material
            self._context = _context(self._of)
        return self._context


def _context(material: TlsMaterial) -> ssl.SSLContext:
    """RFC 9113, section 9.2, asks for TLS 1.2 or later and ALPN `h2`."""
    assert material.pair is not None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["h2"])
    with tempfile.TemporaryDirectory() as folder:  # the module takes certificates from files alone
        cert, key = Path(folder) / "cert.pem", Path(folder) / "key.pem"
        cert.write_bytes(material.pair.chain)
        key.touch(mode=0o600)
        key.write_bytes(material.pair.key)
        context.load_cert_chain(cert, key)
    if material.ca is not None:
        context.load_verify_locations(cadata=material.ca.decode("ascii", "ignore"))
        context.verify_mode = ssl.CERT_REQUIRED
    return context
