"""Bytes to a collector, by gRPC or by HTTP. Called by the exporting thread; each call ends within its time-out.

`OTEL_EXPORTER_OTLP_HEADERS` adds headers, `OTEL_EXPORTER_OTLP_CERTIFICATE` is whom to trust with https, and
`OTEL_EXPORTER_OTLP_TIMEOUT` the seconds that a call may take. A variable for traces, `OTEL_EXPORTER_OTLP_TRACES_…`, is
heard first.
"""

from __future__ import annotations

import os
import ssl
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Final

import grpc
from opentelemetry.util.re import parse_env_headers

from tidegate.settings.otlp_url import GRPC, OtlpUrl

EXPORT: Final = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
SECONDS: Final = 5.0

Send = Callable[[bytes], None]
"""Sends an ExportTraceServiceRequest. Raises OSError or grpc.RpcError when the collector did not take it."""


def sender(url: OtlpUrl, protocol: str) -> Send:
    """What sends by `protocol`. Raises OSError or ValueError when a variable of the environment makes no sense."""
    timeout = float(_variable("TIMEOUT") or SECONDS)
    headers = dict(parse_env_headers(_variable("HEADERS") or "", liberal=True))
    certificate = _variable("CERTIFICATE")
    if protocol == GRPC:
        return _by_grpc(url, headers, certificate, timeout)
    return _by_http(url, headers, certificate, timeout)


def _variable(name: str) -> str | None:
    return os.environ.get(f"OTEL_EXPORTER_OTLP_TRACES_{name}") or os.environ.get(f"OTEL_EXPORTER_OTLP_{name}")


def _by_grpc(url: OtlpUrl, headers: dict[str, str], certificate: str | None, timeout: float) -> Send:
    if url.tls:
        roots = Path(certificate).read_bytes() if certificate else None
        channel = grpc.secure_channel(url.address, grpc.ssl_channel_credentials(roots))
    else:
        channel = grpc.insecure_channel(url.address)
    export = channel.unary_unary(EXPORT)
    metadata = tuple(headers.items())

    def send(data: bytes) -> None:
        export(data, timeout=timeout, metadata=metadata)

    return send


def _by_http(url: OtlpUrl, headers: dict[str, str], certificate: str | None, timeout: float) -> Send:
    context = ssl.create_default_context(cafile=certificate) if url.tls else None
    headers = {**headers, "content-type": "application/x-protobuf"}

    def send(data: bytes) -> None:
        request = urllib.request.Request(url.url, data, headers)  # noqa: S310 - parse_otlp_url lets http(s) alone pass
        with urllib.request.urlopen(request, timeout=timeout, context=context):  # noqa: S310
            pass

    return send
