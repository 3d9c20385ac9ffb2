"""A real Envoy: pushed weights are shares, and a push of weights is nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from tests.xds.conftest import Gateway, both_protocols, cluster, endpoint
from xds_server.type_urls import ENDPOINT

pytestmark = [pytest.mark.envoy, both_protocols]


async def share_of_first(gateway: Gateway, engines: list[Any], requests: int) -> float:
    before = sum(engines[0].served.values())
    for _ in range(requests):
        assert (await gateway.post({"model": "chat"})).status_code == 200
    return (sum(engines[0].served.values()) - before) / requests


async def test_weights_are_shares_and_move_by_eds_alone(gateway: Gateway, engines: Any) -> None:
    first, second = await engines(2)
    await gateway.serve(cluster("chat", endpoint(first, 100), endpoint(second, 900)))
    assert await share_of_first(gateway, [first, second], 300) == pytest.approx(0.1, abs=0.05)
    updates = [await gateway.stat(f"{kind}.update_success") for kind in ("cluster_manager.cds", "listener_manager.lds")]
    changed = await gateway.serve(cluster("chat", endpoint(first, 600), endpoint(second, 400)))
    assert changed == (ENDPOINT,)
    assert await share_of_first(gateway, [first, second], 300) == pytest.approx(0.6, abs=0.08)
    after = [await gateway.stat(f"{kind}.update_success") for kind in ("cluster_manager.cds", "listener_manager.lds")]
    assert after == updates
    assert await gateway.stat("cluster.chat.update_success") == 2
