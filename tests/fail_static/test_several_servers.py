"""Of two servers of a kind one ends under load, and no request notices."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.conftest import EnvoyProcess, RedisServer, until
from tests.soak.live import Live
from tests.xds.conftest import Gateway, cluster, endpoint, engines, gateway
from tidegate.domain.topology import LbPolicy
from tidegate.store.ports import ClusterDecision
from tidegate.store.redis import RedisStore
from xds_server.resources.clusters import ext_proc_cluster

__all__ = ["engines", "gateway"]

pytestmark = [pytest.mark.envoy, pytest.mark.redis]

PICKERS = ("127.0.0.1", "127.0.0.2")


@asynccontextmanager
async def asked(url: str, body: dict[str, Any]) -> AsyncIterator[tuple[Counter[str], Counter[str]]]:
    """Requests from three clients until the block ends: answers by status, and by the engine that gave them."""
    statuses, names = Counter[str](), Counter[str]()

    async def ask() -> None:
        async with httpx.AsyncClient(timeout=20) as client:
            while True:
                answer = await client.post(url, json=body)
                statuses[str(answer.status_code)] += 1
                names[answer.json().get("engine", "")] += 1
                await asyncio.sleep(0.003)

    tasks = [asyncio.create_task(ask()) for _ in range(3)]
    try:
        yield statuses, names
        assert not any(task.done() for task in tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def go_on(statuses: Counter[str], requests: int = 50) -> None:
    """Wait for so many more answers."""
    before = statuses.total()
    await until(lambda: statuses.total() >= before + requests, deadline_seconds=60, what="load going on")


async def test_the_xds_server_in_use_is_killed_and_envoy_follows_the_other(
    own_redis: RedisServer, tmp_path: Path, envoy: Callable[[str], EnvoyProcess], engines: Any
) -> None:
    a, b = await engines(2)
    live, store = Live(own_redis, tmp_path, envoy), RedisStore(own_redis.url, timeout_seconds=10)
    try:
        endpoints = [{"address": a.address}, {"address": b.address}]
        await live.start([{"name": "chat", "models": ["chat"], "lb": "weighted", "endpoints": endpoints}], 2)
        async with asked(f"{live.gateway}/v1/chat/completions", {"model": "chat"}) as (statuses, names):
            await until(lambda: asks(store), deadline_seconds=60, what="xds saying whom Envoy asks")
            [used] = await asks(store)
            live.kill_xds(used)
            await go_on(statuses)
            await store.set_field("weight:chat", a.address, "0")
            await until(lambda: only(names, statuses, "b"), deadline_seconds=60, what="the weight reaching Envoy")
            await until(lambda: follows(store, used), what="Envoy asking the other server")
        assert set(statuses) == {"200"}
    finally:
        await store.close()
        await live.stop()


async def asks(store: RedisStore) -> list[str]:
    """Addresses of the servers that have an Envoy."""
    servers = (await store.present()).get("xds", {}).values()
    return [str(said["listen"]) for said in servers if said["envoys"]]


async def follows(store: RedisStore, killed: str) -> bool:
    return set(await asks(store)) - {killed} != set()


async def only(names: Counter[str], statuses: Counter[str], name: str) -> bool:
    """Whether all of the next requests go to one engine."""
    names.clear()
    await go_on(statuses, 20)
    return set(names) == {name}


@pytest.fixture
async def pickers(
    gateway: Gateway, own_redis: RedisServer, tmp_path: Path, engines: Any, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[list[subprocess.Popen[bytes]]]:
    """Two processes of `tidegate ext-proc` on one port, as a DNS name with two addresses gives it."""

    def both(desired: Any) -> Any:
        message = ext_proc_cluster(desired)
        [locality] = message.load_assignment.endpoints
        locality.lb_endpoints.add().CopyFrom(locality.lb_endpoints[0])
        locality.lb_endpoints[1].endpoint.address.socket_address.address = PICKERS[1]
        return message

    monkeypatch.setattr("xds_server.resources.ext_proc_cluster", both)
    await gateway.processor.stop()
    [engine] = await engines(1)
    file, place = tmp_path / "tidegate.yaml", {"address": engine.address}
    file.write_text(json.dumps({"clusters": [{"name": "chat", "models": ["chat"], "endpoints": [place]}]}))
    store = RedisStore(own_redis.url, timeout_seconds=10)
    await store.write_decisions([ClusterDecision("chat", {engine.address: 500}, {})], {}, [])
    await store.close()
    command = [sys.executable, "-m", "tidegate.cli.main", "ext-proc", "--config", str(file)]
    command += ["--redis-url", own_redis.url, "--listen"]
    started = []
    for ip in PICKERS:
        with (tmp_path / f"{ip}.log").open("wb") as log:
            started.append(subprocess.Popen([*command, f"{ip}:{gateway.processor.port}"], stdout=log, stderr=log))
    yield started
    for process in started:
        process.kill()
        process.wait()


async def test_an_ext_proc_that_is_restarted_as_planned_costs_no_request(
    gateway: Gateway, pickers: list[subprocess.Popen[bytes]], engines: Any
) -> None:
    [engine] = await engines(0)  # the one that is there
    await gateway.serve(cluster("chat", endpoint(engine, 1), lb=LbPolicy.PICK))

    async def served() -> bool:
        return (await gateway.post({"model": "chat"})).status_code == 200 and all(await picked(gateway))

    await until(served, deadline_seconds=60, what="both ext_procs being asked")
    async with asked(f"http://127.0.0.1:{gateway.port}/v1/chat/completions", {"model": "chat"}) as (statuses, _):
        await go_on(statuses)
        pickers[1].send_signal(signal.SIGTERM)
        await until(lambda: pickers[1].poll() is not None, what="the ext_proc ending")
        await go_on(statuses, 100)
    assert set(statuses) == {"200"}
    assert pickers[1].returncode == 0


async def picked(gateway: Gateway) -> list[int]:
    """How many requests each ext_proc had from Envoy."""
    said = (await gateway.admin("/clusters?format=json")).json()
    [hosts] = [one["host_statuses"] for one in said["cluster_statuses"] if one["name"] == "tidegate_ext_proc"]
    return [int(stat.get("value", 0)) for host in hosts for stat in host["stats"] if stat["name"] == "rq_success"]
