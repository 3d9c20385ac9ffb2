"""A real Envoy without ext_proc keeps a model's split by share."""

from __future__ import annotations

from collections import Counter
from math import sqrt
from typing import Any

import pytest

from tests.xds.conftest import Gateway, cluster, endpoint
from xds_server.desired import DesiredSplit

pytestmark = pytest.mark.envoy

COUNT = 300


async def test_alone_envoy_splits_by_share_and_says_where_it_sent(gateway: Gateway, engines: Any) -> None:
    one, two, three = await engines(3)
    split = DesiredSplit(model="chat", parts=(("chat", 700), ("canary", 300)))
    gateway.settings |= {"picker_away": True, "expose_routing": True, "splits": (split,)}
    clusters = [
        cluster("chat", endpoint(one, 1)),
        cluster("canary", endpoint(two, 1)),
        cluster("x", endpoint(three, 1)),
    ]
    await gateway.serve(*clusters)
    told = Counter[tuple[str, str]]()
    for _ in range(COUNT):
        answer = await gateway.post({"model": "chat"})
        told[answer.json()["engine"], answer.headers["x-tidegate-cluster"]] += 1
    assert set(told) == {("a", "chat"), ("b", "canary")}
    assert abs(told["b", "canary"] - 0.3 * COUNT) < 5.5 * sqrt(COUNT * 0.21)  # but for 1 in 10 million runs
