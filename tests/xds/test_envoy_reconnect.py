"""A real Envoy whose xDS server goes and another comes: traffic does not notice."""

from __future__ import annotations

from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from tests.conftest import until
from tests.xds.conftest import Gateway, cluster, endpoint
from tidegate.runtime import now_ms
from xds_server.metrics import XdsMetrics
from xds_server.server import DiscoveryServicer, Streams, start

pytestmark = pytest.mark.envoy


async def test_a_server_that_restarts_goes_unnoticed(gateway: Gateway, engines: Any) -> None:
    first, second = await engines(2)
    await gateway.serve(cluster("chat", endpoint(first, 1), endpoint(second, 0)))
    await gateway.stop_xds()
    assert (await gateway.post({"model": "chat"})).json()["engine"] == first.name

    gateway.streams = Streams(XdsMetrics(CollectorRegistry()))
    server, _ = await start(gateway.xds_address, DiscoveryServicer(gateway.cache, gateway.streams, now_ms))
    try:
        await until(gateway.settled, what="Envoy is back")
        assert await gateway.stat("cluster_manager.cluster_modified") == 0
        await gateway.serve(cluster("chat", endpoint(first, 0), endpoint(second, 1)))
        assert (await gateway.post({"model": "chat"})).json()["engine"] == second.name
    finally:
        await server.stop(0)
