"""A real Envoy under each setting of a cluster."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from tests.conftest import until
from tests.xds.conftest import Gateway, cluster, endpoint
from tidegate.domain.topology import LbPolicy
from tidegate.domain.upstream import DEFAULT, Balance, Upstream
from xds_server.desired import DesiredCluster

pytestmark = pytest.mark.envoy


async def shares(gateway: Gateway, count: int) -> Counter[str]:
    return Counter([(await gateway.post({"model": "chat"})).json()["engine"] for _ in range(count)])


@pytest.mark.parametrize(
    "upstream",
    [
        replace(DEFAULT, balance=Balance.LEAST_REQUEST, ramp_ms=1000),
        replace(DEFAULT, ramp_ms=1000, retries=0, eject_after=0, silence_ms=0, max_requests=5),
    ],
    ids=["least_request", "round_robin"],
)
@pytest.mark.parametrize("lb", LbPolicy)
async def test_envoy_takes_each_setting(gateway: Gateway, engines: Any, upstream: Upstream, lb: LbPolicy) -> None:
    [engine] = await engines(1)
    await gateway.serve(replace(cluster("chat", endpoint(engine, 1), lb=lb), upstream=upstream))
    assert (await gateway.post({"model": "chat"})).status_code == 200


async def answers(gateway: Gateway, engine: Any, status: int, count: int = 12) -> None:
    """So many answers of that status from one engine."""
    for _ in range(count):
        pick = {"model": "chat", "pick": engine.address}
        answer = await gateway.post(pick, f"/v1/chat/completions?status={status}")
        assert answer.status_code == status


@pytest.mark.parametrize("status", [400, 404, 429, 503])
async def test_refusals_and_full_queues_set_no_replica_aside(gateway: Gateway, engines: Any, status: int) -> None:
    one, two = await engines(2)
    chat = cluster("chat", endpoint(one, 1), endpoint(two, 1), lb=LbPolicy.PICK)
    await gateway.serve(chat)
    await answers(gateway, one, status)
    assert await shares(gateway, 10) == {"a": 5, "b": 5}


async def test_faults_in_a_row_set_a_replica_aside_and_never_the_last_one(gateway: Gateway, engines: Any) -> None:
    one, two = await engines(2)
    await gateway.serve(cluster("chat", endpoint(one, 1), endpoint(two, 1), lb=LbPolicy.PICK))
    await answers(gateway, one, 500, DEFAULT.eject_after)
    assert await shares(gateway, 10) == {"b": 10}
    await answers(gateway, two, 500)
    assert await shares(gateway, 4) == {"b": 4}


async def test_a_silent_replica_is_answered_for_and_not_asked_twice(gateway: Gateway, engines: Any) -> None:
    one, two = await engines(2)
    upstream = replace(DEFAULT, silence_ms=200)
    chat = cluster("chat", endpoint(one, 1), endpoint(two, 1), lb=LbPolicy.PICK)
    await gateway.serve(replace(chat, upstream=upstream))
    answer = await gateway.post(
        {"model": "chat", "pick": f"{one.address},{two.address}"}, "/v1/chat/completions?hang=1"
    )
    assert answer.status_code == 504
    await until(lambda: one.requests or two.requests, what="the request at a replica, which may be slow to hear it")
    assert len(one.requests) + len(two.requests) == 1


async def test_the_next_priority_serves_while_the_first_drains(gateway: Gateway, engines: Any) -> None:
    one, two = await engines(2)

    def chat(weight: int) -> DesiredCluster:
        spare = endpoint(two, 1, priority=5, zone="b")
        return cluster("chat", endpoint(one, weight, zone="a"), spare)

    await gateway.serve(chat(1))
    assert await shares(gateway, 6) == {"a": 6}
    await gateway.serve(chat(0))
    assert await shares(gateway, 6) == {"b": 6}
