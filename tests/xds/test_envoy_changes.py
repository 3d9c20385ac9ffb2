"""A real Envoy: clusters come, change and go under traffic; nothing is refused and nothing fails."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.xds.conftest import Gateway, both_protocols, cluster, endpoint
from tidegate.domain.topology import LbPolicy

pytestmark = [pytest.mark.envoy, both_protocols]


async def test_clusters_come_change_and_go_without_a_failed_request(gateway: Gateway, engines: Any) -> None:
    first, second = await engines(2)
    steady = cluster("steady", endpoint(first, 1))
    await gateway.serve(steady)
    statuses: list[int] = []
    stop = asyncio.Event()

    async def load() -> None:
        while not stop.is_set():
            statuses.append((await gateway.post({"model": "steady"})).status_code)

    running = asyncio.create_task(load())
    for round_number in range(4):
        lb = LbPolicy.PICK if round_number % 2 else LbPolicy.WEIGHTED
        extra = cluster("extra", endpoint(second, 1 + round_number), lb=lb)
        await gateway.serve(extra, steady)
        assert (await gateway.post({"model": "extra"})).status_code == 200
        changed = cluster("steady", endpoint(first, 1), lb=lb)
        await gateway.serve(extra, changed)
        await gateway.serve(changed)
        assert (await gateway.post({"model": "extra"})).status_code == 503
        steady = changed
    stop.set()
    await running

    assert set(statuses) == {200}
    [status] = gateway.status()
    assert (status.node, status.nacked, status.last_error) == ("test-envoy", {}, None)
    assert "error_state" not in (await gateway.admin("/config_dump?include_eds")).text
    assert "extra" not in (await gateway.admin("/clusters")).text
    for name in ("cluster_manager.cds", "listener_manager.lds"):
        assert await gateway.stat(f"{name}.update_rejected") == 0
