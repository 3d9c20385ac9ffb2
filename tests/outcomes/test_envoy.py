"""What a real Envoy tells, against the client's own figures. One gateway for all."""

from __future__ import annotations

import asyncio
import os
import random
import re
import signal
from collections.abc import AsyncIterator, Coroutine
from typing import Any

import aiohttp
import pytest
import pytest_asyncio

from tests.outcomes.world import EMPTY, MODEL, NEXT, SPARE, Client, World, start_world, until
from tests.up.cluster import stop_up
from tidegate.domain.outcomes.ending import Ending
from tidegate.domain.outcomes.report import models_seen

pytestmark = [pytest.mark.envoy, pytest.mark.redis, pytest.mark.asyncio(loop_scope="module")]

SERIES = 'tidegate_outcomes_requests_total{{cluster="{}",ending="{}",replica="{}"}}'


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def world(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[World]:
    one = await start_world(tmp_path_factory.mktemp("outcomes"))
    try:
        yield one
    finally:
        await asyncio.to_thread(stop_up, one.up)
        for engine in one.engines:
            await engine.stop()


@pytest_asyncio.fixture(loop_scope="module")
async def client(world: World) -> AsyncIterator[Client]:
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        yield Client(world.up.gateway, session)


def nearest_rank(values: list[float], part: float) -> float:
    return sorted(values)[int(part * (len(values) - 1))]


async def few_at_once(asked: list[Coroutine[Any, Any, Any]]) -> None:
    """A burst would measure this process, which is client and engines at once."""
    gate = asyncio.Semaphore(25)

    async def one(asking: Coroutine[Any, Any, Any]) -> None:
        async with gate:
            await asking

    await asyncio.gather(*map(one, asked))


def counted(page: dict[str, float], cluster: str, ending: str) -> int:
    """Of all replicas of a cluster."""
    pattern = re.compile(
        rf'tidegate_outcomes_requests_total\{{cluster="{cluster}",ending="{ending}",replica="[^"]*"\}}'
    )
    return int(sum(value for name, value in page.items() if pattern.fullmatch(name)))


async def test_counts_are_the_clients_and_times_lie_between_the_engines_and_its_own(
    world: World, client: Client
) -> None:
    rng = random.Random(7)
    stable = [client.ask(delay=rng.uniform(0.5, 1.5)) for _ in range(150)]
    streams = [client.ask(delay=0.4, events=4, gap=rng.uniform(0.1, 0.3)) for _ in range(50)]
    await few_at_once([*stable, *streams])
    engines = world.engines[:2]
    early = (client.leave(engines, delay=600) for _ in range(9))
    await asyncio.gather(*early, *(client.leave(engines, events=50, gap=0.2) for _ in range(6)))
    bad = Client(world.up.gateway, client.session)
    many = [{"status": 500}] * 12 + [{"status": 429}] * 7 + [{"status": 503}] * 5 + [{"status": 422}] * 11
    await asyncio.gather(*(bad.ask(NEXT, **do) for do in [*many, *[{}] * 20, *[{"events": 3, "break": 1}] * 4]))

    async def told() -> bool:
        page = await world.page()
        return sum(counted(page, cluster, end) for cluster in ("stable", "canary") for end in Ending) >= 215 + 59

    await until(told, "every request is told")
    page = await world.page()
    assert {end: counted(page, "stable", end) for end in Ending} == {
        "served": client.statuses[200],
        "client_error": 0,
        "back_pressure": 0,
        "fault": 0,
        "left": client.left,
        "refused": 0,
    }
    assert (client.statuses[200], client.left) == (200, 15)
    assert {end: counted(page, "canary", end) for end in Ending} == {
        "served": bad.statuses[200],
        "client_error": 11,
        "back_pressure": 12,
        "fault": 12 + bad.broken,
        "left": 0,
        "refused": 0,
    }
    assert (bad.statuses[200], bad.broken) == (20, 4)

    async def shared() -> bool:
        return sum((await world.seen("canary")).ever) == 59 and sum((await world.seen("stable")).ever) == 215

    await until(shared, "the reports hold every request")
    seen, worse = await world.seen("stable"), await world.seen("canary")
    assert (seen.error_ratio, worse.error_ratio) == (0.0, pytest.approx(16 / 59))
    total_ms, ttfb_ms = [ms for one in engines for ms in one.total_ms], [ms for one in engines for ms in one.ttfb_ms]
    assert len(total_ms) == len(client.total_ms)
    # Each request takes Envoy longer than its engine and less long than its client, hence so does any of their ranks.
    times = ((seen.tally.total, total_ms, client.total_ms), (seen.tally.ttfb, ttfb_ms, client.ttfb_ms))
    for sketch, least, most in times:
        for part in (0.5, 0.95):
            at = sketch.quantile_ms(part)
            assert 0.98 * nearest_rank(least, part) <= at <= 1.02 * nearest_rank(most, part)
    model = 'tidegate_outcomes_model_requests_total{class="quick",ending="served",model="m"}'
    assert page[model] == 200
    spans = models_seen(await world.reports([], (MODEL,)))[MODEL]
    assert (spans.short.answered, spans.long.late) == (200, 200)


async def envoy_stat(world: World, name: str) -> int:
    """A counter of Envoy's."""
    url = f"{world.up.ready['envoy_admin']}/stats?filter=^{re.escape(name)}$"
    async with aiohttp.ClientSession() as session, session.get(url) as response:
        return int((await response.text()).rpartition(" ")[2])


async def test_a_lost_stream_is_seen_harms_nothing_and_comes_back(world: World, client: Client) -> None:
    sent = await envoy_stat(world, "http.gateway.ext_proc.tidegate.stream_msgs_sent")
    assert {await client.ask(SPARE) for _ in range(20)} == {200}
    assert await envoy_stat(world, "http.gateway.ext_proc.tidegate.stream_msgs_sent") == sent + 20  # none of answers
    pid = world.up.pid("outcomes")
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)  # takes connections, reads nothing
    try:
        assert {await client.ask(SPARE) for _ in range(300)} == {200}
    finally:
        os.kill(pid, signal.SIGKILL)
    assert {await client.ask(SPARE) for _ in range(50)} == {200}

    async def back() -> bool:
        await client.ask(SPARE)
        envoys = (await asyncio.to_thread(world.up.report))["envoys"]
        return bool(world.up.pid("outcomes") != pid and envoys and envoys[0]["tells_outcomes"])

    await until(back, "Envoy tells the outcomes service that was started again")
    before = sum((await world.seen("spare")).ever)

    async def counts() -> bool:
        """What Envoy wrote to the stream before it knew of its end is lost; what comes after is not.

        The report of the one that was killed is added up until it expires: what falls is begun anew.
        """
        nonlocal before
        assert await client.ask(SPARE) == 200
        counted = sum((await world.seen("spare")).ever)
        before = min(before, counted)
        return counted > before

    await until(counts, "requests are counted again")


async def refusals(world: World) -> dict[tuple[str, str], float]:
    """By model and reason."""
    pattern = re.compile(r'tidegate_outcomes_refusals_total\{model="(.*)",reason="(.*)"\}')
    found = {pattern.fullmatch(name): value for name, value in (await world.page()).items()}
    return {(match[1], match[2]): value for match, value in found.items() if match is not None}


async def test_what_no_engine_answered_is_counted_apart(world: World, client: Client) -> None:
    before = await refusals(world)
    assert [await client.ask("nobody"), await client.ask(EMPTY)] == [404, 503]
    async with client.session.get(world.up.gateway + "/health") as response:
        assert response.status == 200

    async def told() -> bool:
        return sum((await refusals(world)).values()) >= sum(before.values()) + 2

    await until(told, "the refusals are told")
    now = await refusals(world)
    assert now[EMPTY, "no-endpoint"] == 1
    assert now["other", "model-not-found"] == before.get(("other", "model-not-found"), 0) + 1
    assert not [name for name in await world.page() if "outcomes_requests_total" in name and 'cluster="empty"' in name]
