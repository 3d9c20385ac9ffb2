"""Real parts: an engine that fails gets less, a cluster that fails is not tried again, a number that is ordered is told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from itertools import count
from typing import Any

import aiohttp
import pytest
import pytest_asyncio
from aiohttp import web

from tests.outcomes.engine import Engine
from tests.outcomes.world import NEXT, Client, World, config, until
from tests.up.cluster import start_up, stop_up
from tidegate.domain.actions.effects import Effects
from tidegate.store.redis import RedisStore

pytestmark = [pytest.mark.envoy, pytest.mark.redis, pytest.mark.asyncio(loop_scope="module")]

RETRIES = 2
"""Envoy's, unless somebody says otherwise."""


class Faulty(Engine):
    """Answers every third request with 500 while `fails`: too few to be set aside."""

    fails = False

    def __init__(self) -> None:
        super().__init__()
        self.numbers = count()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        if self.fails and next(self.numbers) % 3 == 0:
            self.served += 1
            return web.json_response({"error": "out of luck"}, status=500)
        return await super()._answer(request)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def world(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[World]:
    engines = [Faulty(), Faulty(), Faulty()]
    for engine in engines:
        await engine.start()
    stable, canary = [engines[0].address, engines[1].address], [engines[2].address]
    folder = tmp_path_factory.mktemp("scaling")
    up = await asyncio.to_thread(start_up, folder, config=config(stable, canary))
    try:
        yield World(up, list(engines))
    finally:
        await asyncio.to_thread(stop_up, up)
        for engine in engines:
            await engine.stop()


@pytest.fixture(autouse=True)
def _all_well_again(world: World) -> Iterator[None]:
    yield
    for engine in world.engines:
        engine.fails = False


@pytest_asyncio.fixture(loop_scope="module")
async def client(world: World) -> AsyncIterator[Client]:
    async with aiohttp.ClientSession() as session:
        yield Client(world.up.gateway, session)


async def effects(world: World) -> Effects:
    store = RedisStore(world.up.ready["redis"], timeout_seconds=60)
    try:
        return await store.effects()
    finally:
        await store.close()


async def retries_at_envoy(world: World, cluster: str) -> set[int]:
    """`num_retries` of every route to the cluster, out of Envoy's config dump."""
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"{world.up.ready['envoy_admin']}/config_dump?resource=dynamic_route_configs") as response,
    ):
        return set(_retries(await response.json(content_type=None), cluster))


def _retries(node: Any, cluster: str) -> list[int]:
    if isinstance(node, list):
        return [found for one in node for found in _retries(one, cluster)]
    if not isinstance(node, dict):
        return []
    own = (
        [node["retry_policy"].get("num_retries", 1)]
        if node.get("cluster") == cluster and "retry_policy" in node
        else []
    )
    return own + [found for one in node.values() for found in _retries(one, cluster)]


async def test_an_engine_that_fails_a_third_of_the_time_gets_less_and_its_explanation_says_so(
    world: World, client: Client
) -> None:
    bad, good = world.engines[0], world.engines[1]
    bad.fails = True

    async def reduced() -> bool:
        await asyncio.gather(*(client.ask() for _ in range(10)))
        return bad.address in (await effects(world)).reduced.get("stable", {})

    await until(reduced, "the failing engine is reduced")
    ratio = (await effects(world)).reduced["stable"][bad.address].ratio
    assert 0.05 <= ratio <= 0.85

    async def gets_less() -> bool:
        """Of the next 200 requests: of the first ones ext_proc may not know yet."""
        before = bad.served, good.served
        while bad.served + good.served - sum(before) < 200:
            await asyncio.gather(*(client.ask() for _ in range(20)))
        return 0 < bad.served - before[0] < 0.6 * (good.served - before[1])

    await until(gets_less, "it gets less, and something")

    async def explained() -> bool:
        why = await asyncio.to_thread(world.up.redis, "HGET", "tidegate:explain:stable", bad.address)
        return "reduced to × " in why

    await until(explained, "explain says that it is reduced")


async def test_retries_are_cut_at_envoy_while_a_cluster_fails_and_restored(world: World, client: Client) -> None:
    assert await retries_at_envoy(world, "canary") == {RETRIES}
    world.engines[2].fails = True

    async def cut() -> bool:
        await asyncio.gather(*(client.ask(NEXT) for _ in range(30)))
        return await retries_at_envoy(world, "canary") == {0}

    await until(cut, "retries are cut at Envoy")
    world.engines[2].fails = False

    async def restored() -> bool:
        await asyncio.gather(*(client.ask(NEXT) for _ in range(40)))
        return await retries_at_envoy(world, "canary") == {RETRIES}

    await until(restored, "retries are back at Envoy", seconds=90)


async def test_an_ordered_number_is_told_to_autoscalers(world: World) -> None:
    await asyncio.to_thread(world.up.redis, "HSET", "tidegate:tune:stable", "scale.replicas", "7")

    async def told() -> bool:
        async with aiohttp.ClientSession() as session, session.get(world.up.ready["metrics"]["xds"]) as response:
            page = await response.text()
        return 'tidegate_scale_desired_replicas{cluster="stable"} 7.0' in page

    async def is_by_the_operator() -> bool:
        return await asyncio.to_thread(world.up.redis, "HGET", "tidegate:scale:stable", "reason") == "operator"

    try:
        await until(told, "the metric says 7")
        await until(is_by_the_operator, "the store says by whom")
    finally:
        await asyncio.to_thread(world.up.redis, "DEL", "tidegate:tune:stable")
