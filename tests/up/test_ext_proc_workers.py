"""`tidegate up --ext-proc-workers 4`: Envoy spreads over the workers, and they do not herd."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.conftest import until, wait_until
from tests.ports import take_free_port
from tests.up.cluster import Up, start_up, stop_up
from tests.up.engines import Engines

pytestmark = [pytest.mark.envoy, pytest.mark.redis]

REPLICAS, REQUESTS = 8, 64


@pytest.fixture(scope="module")
def addresses() -> Iterator[list[str]]:
    """Engines that serve."""
    found = [f"127.0.0.1:{take_free_port()}" for _ in range(REPLICAS)]
    engines = Engines()
    try:
        for address in found:
            engines.start(address, "--model", "phi-3", "--time-scale", "0.1")  # none is done before all are asked
        yield found
    finally:
        engines.stop()


@pytest.fixture(params=[1, 4], ids="{} processes".format)
def cluster(request: pytest.FixtureRequest, addresses: list[str], tmp_path: Path) -> Iterator[tuple[Up, int]]:
    config = {
        "gateway": {"listen": "127.0.0.1:0", "expose_routing": True},
        "redis": {"url": f"redis://127.0.0.1:{take_free_port()}/0"},
        "clusters": [{"name": "phi-3", "models": ["phi-3"], "endpoints": [{"address": one} for one in addresses]}],
    }
    up = start_up(tmp_path, "--ext-proc-workers", str(request.param), config=config)
    try:
        wait_until(lambda: acquainted(up, request.param), what="the workers knowing of one another")
        yield up, request.param
    finally:
        stop_up(up)


def acquainted(up: Up, workers: int) -> bool:
    """Whether every worker beats and every replica is sampled."""
    report = up.report()
    [cluster] = report["clusters"]
    sampled = [one for one in cluster["endpoints"] if one["status"] in {"idle", "ready"}]
    return len(report["services"].get("ext_proc", [])) == workers and len(sampled) == REPLICAS


def dispatched(up: Up) -> Counter[str]:
    """Requests decided, by worker; those of a worker that tells nothing at the moment are as it told last."""
    page = httpx.get(up.ready["metrics"]["ext_proc"], timeout=60).text
    series = r'^tidegate_ext_proc_worker_decisions_total\{worker="(\d+)"\} (\S+)$'
    by_worker = re.findall(series, page, re.MULTILINE)
    alone = re.findall(r"^tidegate_ext_proc_decision_seconds_count() (\S+)$", page, re.MULTILINE)
    return Counter({worker or "1": int(float(count)) for worker, count in by_worker or alone})


async def burst(up: Up) -> Counter[str]:
    """REQUESTS at once, each of another prompt and over a connection of its own: requests by replica."""
    limits = httpx.Limits(max_connections=REQUESTS)
    async with httpx.AsyncClient(limits=limits, timeout=90) as client:
        answers = await asyncio.gather(
            *(client.post(f"{up.gateway}/v1/chat/completions", json=chat(n)) for n in range(REQUESTS))
        )
    assert {answer.status_code for answer in answers} == {200}
    return Counter(answer.headers["x-tidegate-endpoint"] for answer in answers)


def chat(number: int) -> dict[str, Any]:
    """A prompt of 300 tokens that no other begins with."""
    return {"model": "phi-3", "messages": [{"role": "user", "content": f"{number} hello " * 100}], "max_tokens": 4}


async def test_a_burst_is_spread_over_workers_and_replicas(cluster: tuple[Up, int]) -> None:
    up, workers = cluster
    await until(lambda: len(dispatched(up)) == workers, what="every worker telling what it decided")
    before = dispatched(up)
    by_replica = await burst(up)
    await until(lambda: (dispatched(up) - before).total() >= REQUESTS, what="every decision told")
    by_worker = dispatched(up) - before
    assert by_worker.total() == REQUESTS
    assert len(by_worker) == workers
    assert max(by_worker.values()) <= 1.25 * REQUESTS / workers
    assert max(by_replica.values()) <= 1.25 * REQUESTS / REPLICAS
