"""Server-sent events."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator
from typing import Any

import msgspec
from aiohttp import web

DONE = b"data: [DONE]\n\n"


def data(payload: Any) -> bytes:
    """An event without a name, as OpenAI's older APIs send."""
    return b"data: " + msgspec.json.encode(payload) + b"\n\n"


def named(payload: dict[str, Any]) -> bytes:
    """An event named by its own `type`, as Anthropic and OpenAI's responses send."""
    return b"event: " + str(payload["type"]).encode() + b"\n" + data(payload)


async def send(request: web.Request, events: AsyncGenerator[bytes, None]) -> web.StreamResponse:
    """Answer with `events`, each a chunk; ends quietly when the client has gone."""
    response = web.StreamResponse(
        headers={"Content-Type": "text/event-stream; charset=utf-8", "Cache-Control": "no-cache"}
    )
    async with contextlib.aclosing(events):
        with contextlib.suppress(ConnectionResetError):
            await response.prepare(request)
            async for event in events:
                await response.write(event)
            await response.write_eof()
    return response
