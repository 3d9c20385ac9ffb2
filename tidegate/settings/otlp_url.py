"""Where an OpenTelemetry collector is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

GRPC: Final = "grpc"
HTTP: Final = "http/protobuf"
PROTOCOLS: Final = (GRPC, HTTP)

_PORTS: Final = {GRPC: 4317, HTTP: 4318}
_TRACES: Final = "/v1/traces"


@dataclass(frozen=True, slots=True)
class OtlpUrl:
    """`host:port` of a collector; `path` is that of its HTTP endpoint for traces."""

    host: str
    port: int
    path: str
    tls: bool

    @property
    def address(self) -> str:
        """`host:port`, an IPv6 address in brackets."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def url(self) -> str:
        """For HTTP."""
        return f"{'https' if self.tls else 'http'}://{self.address}{self.path}"


def parse_otlp_url(text: str, protocol: str = GRPC) -> OtlpUrl:
    """`http://host[:port][/path]`, or `https://`; the port is 4317 with gRPC and 4318 with HTTP unless given.

    `/v1/traces` follows the path unless it ends so. Raises ValueError, with a sentence that repeats no password.
    """
    parts = urlsplit(text)
    try:
        port = parts.port
    except ValueError as exc:
        raise ValueError(f"the port of an OTLP endpoint is a number: {exc}") from exc
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError("an OTLP endpoint is http://HOST:PORT or https://HOST:PORT")
    if parts.username is not None or parts.query or parts.fragment:
        raise ValueError("an OTLP endpoint has no password and no query; OTEL_EXPORTER_OTLP_HEADERS is for secrets")
    base = parts.path.rstrip("/")
    path = base if base.endswith(_TRACES) else base + _TRACES
    return OtlpUrl(parts.hostname, port or _PORTS[protocol], path, parts.scheme == "https")
