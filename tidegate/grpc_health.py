"""grpc.health.v1 for every gRPC server here: Envoy's health checks, Kubernetes probes and grpcurl ask it.

    HealthCheckRequest   0a LEN service     (nothing at all for the server as a whole)
    HealthCheckResponse  08 status          1 SERVING, 2 NOT_SERVING, 3 SERVICE_UNKNOWN (Watch only)

The messages have one field each, so bytes are compared and no generated code is needed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, Final

import grpc

HEALTH: Final = "grpc.health.v1.Health"

SERVING: Final = b"\x08\x01"
NOT_SERVING: Final = b"\x08\x02"
SERVICE_UNKNOWN: Final = b"\x08\x03"


def check_request(service: str) -> bytes:
    """A serialised HealthCheckRequest for a name of less than 128 bytes."""
    name = service.encode()
    return bytes((0x0A, len(name))) + name


class Health:
    """The state of these services and of the server as a whole: serving, until it is told to drain."""

    def __init__(self, *services: str) -> None:
        self._known = frozenset({b"", check_request(""), *map(check_request, services)})
        self._draining = asyncio.Event()

    def drain(self) -> None:
        """From here on the answer is NOT_SERVING."""
        self._draining.set()

    def check(self, request: bytes) -> bytes | None:
        """The response to Check, or None for a service that is not here (NOT_FOUND)."""
        return self.watch(request) if request in self._known else None

    def watch(self, request: bytes) -> bytes:
        """The present message of a Watch."""
        if request not in self._known:
            return SERVICE_UNKNOWN
        return NOT_SERVING if self._draining.is_set() else SERVING

    async def drained(self) -> None:
        """Return when the state has changed for the last time."""
        await self._draining.wait()


def health_handlers(health: Health) -> dict[str, Any]:
    """Path → handler of a generic gRPC server; messages stay bytes."""

    async def check(request: bytes, context: Any) -> bytes:
        response = health.check(request)
        if response is None:
            await context.abort(grpc.StatusCode.NOT_FOUND, "unknown service")
        return response or b""

    async def watch(request: bytes, _: Any) -> AsyncIterator[bytes]:
        first = health.watch(request)
        yield first
        await health.drained()
        last = health.watch(request)
        if last != first:
            yield last

    return {
        f"/{HEALTH}/Check": grpc.unary_unary_rpc_method_handler(check),
        f"/{HEALTH}/Watch": grpc.unary_stream_rpc_method_handler(watch),
    }
