"""A real Envoy, both protocols: what a server must do so that nothing waits for a timeout of 15 s, which there is not."""

from __future__ import annotations

from typing import Any

import pytest

from tests.xds.conftest import Gateway, both_protocols, cluster, endpoint
from tidegate.domain.topology import LbPolicy

pytestmark = [pytest.mark.envoy, both_protocols, pytest.mark.usefixtures("envoy_never_gives_up")]


async def test_fact_25_a_changed_cluster_whose_endpoints_stay_is_not_left_warming(
    gateway: Gateway, engines: Any
) -> None:
    [engine] = await engines(1)
    await gateway.serve(cluster("chat", endpoint(engine, 1)))
    for lb in (LbPolicy.PICK, LbPolicy.WEIGHTED):
        await gateway.serve(cluster("chat", endpoint(engine, 1), lb=lb))
        assert await gateway.stat("cluster_manager.warming_clusters") == 0


async def test_fact_21_a_cluster_that_goes_and_its_routes_go_without_an_unknown_cluster_in_between(
    gateway: Gateway, engines: Any
) -> None:
    first, second = await engines(2)
    both = [cluster("chat", endpoint(first, 1)), cluster("images", endpoint(second, 1))]
    await gateway.serve(*both)
    for _ in range(3):
        await gateway.serve(both[0])
        assert (await gateway.post({"model": "chat"})).status_code == 200
        await gateway.serve(*both)
        assert (await gateway.post({"model": "images"})).status_code == 200
    assert await gateway.stat("http.gateway.no_cluster") == 0


async def test_fact_35_a_cluster_is_emptied_by_an_empty_assignment(gateway: Gateway, engines: Any) -> None:
    [engine] = await engines(1)
    await gateway.serve(cluster("chat", endpoint(engine, 1)))
    await gateway.serve(cluster("chat"))
    assert (await gateway.post({"model": "chat"})).status_code == 503
    await gateway.serve(cluster("chat", endpoint(engine, 1)))
    assert (await gateway.post({"model": "chat"})).status_code == 200


async def test_fact_45_a_weight_touches_endpoints_alone(gateway: Gateway, engines: Any) -> None:
    first, second = await engines(2)
    others = cluster("images", endpoint(second, 1))
    await gateway.serve(cluster("chat", endpoint(first, 1)), others)
    before = [await gateway.stat(f"cluster.{name}.update_success") for name in ("chat", "images")]
    for weight in (2, 3, 4):
        await gateway.serve(cluster("chat", endpoint(first, weight)), others)
    after = [await gateway.stat(f"cluster.{name}.update_success") for name in ("chat", "images")]
    assert [b - a for a, b in zip(before, after, strict=True)] == [3, 0]
    assert await gateway.stat("cluster_manager.cluster_modified") == 0
