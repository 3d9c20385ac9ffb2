"""Requests that wait, through a real Envoy: longer than its own timeout, until room, a deadline or a hang-up."""

from __future__ import annotations

import asyncio
import itertools

import aiohttp
import pytest

from tests.conftest import until
from tests.flow.world import Told, World, session

pytestmark = [pytest.mark.envoy, pytest.mark.redis]

Tasks = list[asyncio.Task[Told]]


def send(world: World, client: aiohttp.ClientSession, count: int, **more: str) -> Tasks:
    """Requests of 800 and 200 tokens, each for about three seconds; two fill an engine."""
    one = {"prompt_tokens": 800, "tokens": 200}
    return [asyncio.create_task(world.ask(client, **one, headers=more)) for _ in range(count)]


async def crowd(world: World, client: aiohttp.ClientSession, count: int = 12) -> Tasks:
    """More than both engines can hold: some wait."""
    tasks = send(world, client, count, **{"x-tidegate-explain": "1"})
    await until(lambda: world.waiting() >= 1, what="a request waits")
    return tasks


def waited(told: Told) -> float:
    return float(told.headers["x-tidegate-explain"].rpartition("waited=")[2])


async def test_a_request_waits_past_envoys_own_timeout_and_is_served(world: World) -> None:
    async with session() as client:
        told = await asyncio.gather(*await crowd(world, client))
    assert {one.status for one in told} == {200}
    assert max(map(waited, told)) > 5


async def test_at_the_deadline_it_is_429_with_the_time_to_come_back(world: World) -> None:
    world.tune(timeout_ms=500)
    async with session() as client:
        told = await asyncio.gather(*send(world, client, 12))
    late = [one for one in told if one.status == 429]
    assert late
    assert {one.headers["x-tidegate-reason"] for one in late} == {"queue-timeout"}
    assert all(int(one.headers["retry-after"]) >= 1 for one in late)
    assert {one.status for one in told} == {200, 429}


async def test_clients_that_hang_up_free_their_places(world: World) -> None:
    gone = world.outcome("gone")
    async with session() as client:
        running = await crowd(world, client)
        waiting = world.waiting()
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        await until(lambda: world.waiting() == 0, what="their places are free")
    assert 1 <= world.outcome("gone") - gone <= len(running)
    assert waiting >= 1


async def test_status_tells_who_waits(world: World) -> None:
    async def told() -> bool:
        report = await asyncio.to_thread(world.up.report)
        return bool(report["queues"].get("c", {}).get("waiting"))

    async with session() as client:
        running = await crowd(world, client, 40)  # who waits longer than a busy machine takes to tell
        await until(told, what="status tells who waits")
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


async def test_priority_passes_those_who_wait_and_engines_never_see_the_header(world: World) -> None:
    world.tune(max_requests=1)
    async with session() as client:
        running = await crowd(world, client)
        urgent = await world.ask(client, headers={"x-tidegate-priority": "high", "x-tidegate-explain": "1"})
        assert urgent.status == 200
        for task in running:
            task.cancel()
        told = await asyncio.gather(*running, return_exceptions=True)
        assert any(isinstance(one, Told) and one.status == 429 for one in told)
    names = {name.lower() for index in range(2) for one in world.received(index) for name, _ in one["headers"]}
    assert not {name for name in names if name.startswith(("x-tidegate", "tidegate-"))}
    assert "x-request-id" in names


async def test_a_replica_that_hangs_loses_traffic_at_once(world: World) -> None:
    async with session() as client:
        for _ in range(4):
            await world.ask(client)
        hung = world.engines[0]
        world.fault(0, "hang")
        holding = [asyncio.create_task(world.ask(client)) for _ in range(6)]
        patience = itertools.chain([1, 2, 4], itertools.repeat(8))  # a busy machine answers late, a hung replica never

        async def avoided() -> bool:
            answers = [asyncio.create_task(world.ask(client)) for _ in range(6)]
            done, pending = await asyncio.wait(answers, timeout=next(patience))
            for task in pending:
                task.cancel()
            await asyncio.gather(*pending, return_exceptions=True)
            return not pending and all(one.result().headers["x-tidegate-endpoint"] != hung for one in done)

        await until(avoided, what="the hung replica gets nothing")
        for task in holding:
            task.cancel()
        await asyncio.gather(*holding, return_exceptions=True)
