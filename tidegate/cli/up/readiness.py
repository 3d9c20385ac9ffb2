"""When the local cluster serves: asked of the gateway itself, never assumed."""

from __future__ import annotations

import asyncio
import time

import aiohttp

from tidegate.domain.wire import REASON_HEADER

PROBE_MODEL = "tidegate-readiness-probe"


async def picker_answers(session: aiohttp.ClientSession, gateway: str) -> bool:
    """Whether a request passes Envoy and ext_proc: a model that nobody has gets ext_proc's own 404."""
    try:
        async with session.post(f"{gateway}/v1/chat/completions", json={"model": PROBE_MODEL}) as response:
            return response.status in {400, 404} and REASON_HEADER in response.headers
    except (aiohttp.ClientError, TimeoutError, OSError):
        return False


async def is_healthy(session: aiohttp.ClientSession, gateway: str) -> bool:
    """Whether the gateway says that at least one cluster can serve."""
    try:
        async with session.get(f"{gateway}/health") as response:
            return response.status == 200
    except (aiohttp.ClientError, TimeoutError, OSError):
        return False


async def wait_until_served(gateway: str, *, deadline_seconds: float, patience_seconds: float) -> bool:
    """Wait until ext_proc answers through Envoy, then up to `patience_seconds` for a healthy cluster.

    Returns whether a cluster is healthy. Raises TimeoutError when ext_proc never answered.
    """
    timeout = aiohttp.ClientTimeout(total=2)
    end = time.monotonic() + deadline_seconds
    async with aiohttp.ClientSession(timeout=timeout) as session:
        while not await picker_answers(session, gateway):
            if time.monotonic() > end:
                raise TimeoutError
            await asyncio.sleep(0.05)
        end = time.monotonic() + patience_seconds
        while not (healthy := await is_healthy(session, gateway)) and time.monotonic() < end:
            await asyncio.sleep(0.05)
        return healthy
