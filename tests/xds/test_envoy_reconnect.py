"""A real Envoy whose xDS server goes and another comes: traffic does not notice."""

from __future__ import annotations

from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from tests.conftest import until
from tests.xds.conftest import Gateway, both_protocols, cluster, endpoint
from tidegate.domain.topology import LbPolicy
from tidegate.runtime import now_ms
from xds_server.metrics import XdsMetrics
from xds_server.server import DiscoveryServicer, Streams, start
from xds_server.type_urls import CLUSTER, SHORT_NAMES

pytestmark = [pytest.mark.envoy, both_protocols]


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


@pytest.mark.usefixtures("envoy_never_gives_up")
async def test_fact_41_a_stream_cut_during_a_cluster_push_does_not_leave_the_cluster_warming(
    gateway: Gateway, engines: Any
) -> None:
    """The assignment is as it was: only a server that sends it all the same ends the warming."""
    [engine] = await engines(1)
    await gateway.serve(cluster("chat", endpoint(engine, 1)))
    gateway.servicer.cut_after = CLUSTER
    await gateway.serve(cluster("chat", endpoint(engine, 1), lb=LbPolicy.PICK))
    assert gateway.servicer.cut_after is None
    assert await gateway.stat("cluster_manager.warming_clusters") == 0
    assert (await gateway.post({"model": "chat"})).status_code == 200


async def test_fact_31_another_server_with_the_same_content_pushes_nothing_in_delta(
    gateway: Gateway, engines: Any
) -> None:
    [engine] = await engines(1)
    await gateway.serve(cluster("chat", endpoint(engine, 1)))
    await gateway.stop_xds()
    registry = CollectorRegistry()
    gateway.streams = Streams(XdsMetrics(registry))
    server, _ = await start(gateway.xds_address, DiscoveryServicer(gateway.cache, gateway.streams, now_ms))
    try:
        await until(gateway.settled, what="Envoy is back")
        pushes = [registry.get_sample_value("tidegate_xds_pushes_total", {"type": s}) for s in SHORT_NAMES.values()]
        assert pushes == ([0, 0, 0, 0] if gateway.protocol == "delta" else [1, 1, 1, 1])
        assert await gateway.stat("cluster_manager.cluster_modified") == 0
    finally:
        await server.stop(0)
