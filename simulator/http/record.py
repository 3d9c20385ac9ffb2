"""What was received, for tests that compare bytes."""

from __future__ import annotations

from collections import deque
from hashlib import sha256
from typing import Any

from aiohttp import web

_KEPT = 256


class Record:
    """The last 256 requests. Bodies are hashed, not kept. Does nothing unless `enabled`."""

    def __init__(self, enabled: bool) -> None:
        self.enabled = enabled
        self._seen: deque[dict[str, Any]] = deque(maxlen=_KEPT)

    async def add(self, request: web.Request) -> None:
        """Note a request; reads its body, which stays readable."""
        body = await request.read()
        self._seen.append(
            {
                "method": request.method,
                "path": request.raw_path,
                "headers": [[str(name), value] for name, value in request.headers.items()],
                "body_bytes": len(body),
                "sha256": sha256(body).hexdigest(),
            }
        )

    def last(self, count: int) -> list[dict[str, Any]]:
        """The newest `count` of them, oldest first."""
        return list(self._seen)[-count:] if count > 0 else []
