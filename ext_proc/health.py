"""grpc.health.v1, sans-I/O: Envoy's health checks ask it.

    HealthCheckRequest   0a LEN service     (nothing at all for the server as a whole)
    HealthCheckResponse  08 status          1 SERVING, 2 NOT_SERVING, 3 SERVICE_UNKNOWN (Watch only)

The messages have one field each, so bytes are compared and no generated code is needed.
"""

from __future__ import annotations

import asyncio
from typing import Final

EXTERNAL_PROCESSOR: Final = "envoy.service.ext_proc.v3.ExternalProcessor"
HEALTH: Final = "grpc.health.v1.Health"

SERVING: Final = b"\x08\x01"
NOT_SERVING: Final = b"\x08\x02"
SERVICE_UNKNOWN: Final = b"\x08\x03"


def check_request(service: str) -> bytes:
    """A serialised HealthCheckRequest for a name of less than 128 bytes."""
    name = service.encode()
    return bytes((0x0A, len(name))) + name


_KNOWN: Final = frozenset({b"", check_request(""), check_request(EXTERNAL_PROCESSOR)})


class Health:
    """Serving until it is told to drain."""

    def __init__(self) -> None:
        self._draining = asyncio.Event()

    def drain(self) -> None:
        """From here on the answer is NOT_SERVING."""
        self._draining.set()

    def check(self, request: bytes) -> bytes | None:
        """The response to Check, or None for a service that is not here (NOT_FOUND)."""
        return self.watch(request) if request in _KNOWN else None

    def watch(self, request: bytes) -> bytes:
        """The present message of a Watch."""
        if request not in _KNOWN:
            return SERVICE_UNKNOWN
        return NOT_SERVING if self._draining.is_set() else SERVING

    async def drained(self) -> None:
        """Return when the state has changed for the last time."""
        await self._draining.wait()
