"""A service owns its tasks: it restarts what dies and ends all with itself."""

from __future__ import annotations

import asyncio
import os
import signal

from prometheus_client import CollectorRegistry

from tests.conftest import until
from tidegate.runtime import Service, backoff_seconds


async def test_a_task_that_dies_is_counted_and_started_again() -> None:
    registry, starts = CollectorRegistry(), []

    async def dies() -> None:
        starts.append(1)
        raise RuntimeError("boom")

    service = Service("test", registry)
    service.spawn("dies", dies)
    running = asyncio.create_task(service.run_until_stopped())
    await until(lambda: len(starts) >= 2, what="the second start")
    assert registry.get_sample_value("tidegate_task_restarts_total", {"task": "dies"}) >= 1
    service.stop()
    await running


async def test_sigterm_cancels_every_task() -> None:
    ended = asyncio.Event()

    async def waits() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    service = Service("test", CollectorRegistry())
    service.spawn("waits", waits)
    running = asyncio.create_task(service.run_until_stopped())
    await asyncio.sleep(0)
    os.kill(os.getpid(), signal.SIGTERM)
    await running
    assert ended.is_set()


async def test_a_cancelled_service_leaves_no_task_behind() -> None:
    ended = asyncio.Event()

    async def waits() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    service = Service("test", CollectorRegistry())
    service.spawn("waits", waits)
    running = asyncio.create_task(service.run_until_stopped())
    await asyncio.sleep(0.01)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert ended.is_set()


def test_backoff_grows_to_its_most_and_stays() -> None:
    delays = backoff_seconds(1, 2, 5)
    assert [next(delays) for _ in range(5)] == [1, 2, 4, 5, 5]
