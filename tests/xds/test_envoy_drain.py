"""A real Envoy: no new traffic means none, also when it is so for every replica."""

from __future__ import annotations

from typing import Any

import pytest

from tests.xds.conftest import Gateway, both_protocols, cluster, endpoint

pytestmark = [pytest.mark.envoy, both_protocols]


async def test_weight_0_stops_new_traffic_and_all_draining_is_503_not_panic(gateway: Gateway, engines: Any) -> None:
    first, second = await engines(2)
    await gateway.serve(cluster("chat", endpoint(first, 0), endpoint(second, 1)))
    answers = {(await gateway.post({"model": "chat"})).json()["engine"] for _ in range(20)}
    assert answers == {second.name}

    await gateway.serve(cluster("chat", endpoint(first, 0), endpoint(second, 5, takes_traffic=False)))
    statuses = {(await gateway.post({"model": "chat"})).status_code for _ in range(20)}
    assert statuses == {503}
    assert (await gateway.send("GET", "/health")).status_code == 503
    assert not first.requests

    await gateway.serve(cluster("chat", endpoint(first, 7), endpoint(second, 0)))
    assert (await gateway.post({"model": "chat"})).json()["engine"] == first.name
    assert (await gateway.send("GET", "/health")).status_code == 200
