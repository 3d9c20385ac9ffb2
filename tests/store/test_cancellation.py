"""A task that uses the store ends when it is told to."""

from __future__ import annotations

import asyncio

import pytest

from tidegate.store.redis import RedisStore


@pytest.mark.redis
async def test_cancelled_task_never_goes_on(redis_url):
    store = RedisStore(redis_url, timeout_seconds=60)

    async def use_for_ever():
        while True:
            await store.ping()
            await store.registered()

    for step in range(300):
        task = asyncio.create_task(use_for_ever())
        for _ in range(step % 30):
            await asyncio.sleep(0)
        task.cancel()
        done, _ = await asyncio.wait([task], timeout=60)
        assert done, f"cancelled after {step % 30} steps of the loop, and still running"
    await store.close()
