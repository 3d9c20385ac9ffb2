"""A real Envoy: a request goes where ext_proc's metadata says, whatever a client claims."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.conftest import accepts
from tests.xds.conftest import Gateway, cluster, endpoint
from tidegate.domain.topology import LbPolicy

pytestmark = pytest.mark.envoy


async def test_cluster_and_replica_are_the_chosen_ones(gateway: Gateway, engines: Any) -> None:
    first, second, third = await engines(3)
    await gateway.serve(
        cluster("chat", endpoint(first, 500), endpoint(second, 500), lb=LbPolicy.PICK),
        cluster("images", endpoint(third, 1)),
    )
    for chosen in (second, second, first, second):
        answer = await gateway.post({"model": "chat", "pick": chosen.address})
        assert answer.json()["engine"] == chosen.name
        assert answer.headers["x-tidegate-cluster"] == "chat"
        assert answer.headers["x-tidegate-endpoint"] == chosen.address
    assert (await gateway.post({"model": "images"})).json()["engine"] == third.name
    unpicked = {(await gateway.post({"model": "chat"})).json()["engine"] for _ in range(10)}
    assert unpicked == {first.name, second.name}


async def test_a_replica_that_does_not_answer_is_passed_over_with_the_body_intact(
    gateway: Gateway, engines: Any, free_port: Any
) -> None:
    gone, living = await engines(2)
    await gone.stop()
    assert not accepts(gone.port)
    await gateway.serve(cluster("chat", endpoint(gone, 999), endpoint(living, 1), lb=LbPolicy.PICK))
    body = {"model": "chat", "pick": f"{gone.address},{living.address}", "text": "x" * 900_000}
    answer = await gateway.post(body)
    assert answer.status_code == 200
    assert answer.json()["bytes"] == len(json.dumps(body, separators=(",", ":")))
    assert answer.headers["x-tidegate-endpoint"] == living.address


async def test_control_headers_of_clients_and_engines_stop_here(gateway: Gateway, engines: Any) -> None:
    first, second = await engines(2)
    first.answer_headers = {"x-tidegate-cluster": "lie", "x-tidegate-endpoint": "lie", "x-tidegate-reason": "lie"}
    gateway.settings["expose_routing"] = False
    await gateway.serve(cluster("chat", endpoint(first, 1000), endpoint(second, 0), lb=LbPolicy.PICK))
    forged = {
        "x-gateway-destination-endpoint": second.address,
        "x-tidegate-anything": "1",
        "x-envoy-retry-on": "5xx",
        "x-mine": "kept",
    }
    answer = await gateway.post({"model": "chat"}, headers=forged)
    assert answer.json()["engine"] == first.name
    assert not [name for name in answer.headers if name.startswith("x-tidegate-")]
    [seen] = first.requests
    assert forged.keys() & {name.lower() for name in seen} == {"x-mine"}


async def test_a_stream_arrives_event_by_event(gateway: Gateway, engines: Any) -> None:
    [engine] = await engines(1)
    await gateway.serve(cluster("chat", endpoint(engine, 1)))
    url, pieces = f"http://127.0.0.1:{gateway.port}/v1/chat/completions?stream=1", []
    async with gateway.client.stream("POST", url, json={"model": "chat"}) as answer:
        async for piece in answer.aiter_text():
            pieces.append(piece)
            engine.next_event.set()
    assert pieces == ["data: 0\n\n", "data: 1\n\n", "data: 2\n\n"]


async def test_ext_proc_is_told_path_types_and_the_headers_that_rules_compare(gateway: Gateway, engines: Any) -> None:
    [engine] = await engines(1)
    gateway.settings["rule_headers"] = ("content-type", "it's", "x-absent", "x-tier", "x.!#$%&*+^_`|~y")
    await gateway.serve(cluster("chat", endpoint(engine, 1)))
    headers = [
        ("content-encoding", "identity"),
        ("X-Tier", "free"),
        ("x-tier", "paid"),
        ("it's", "so"),
        ("x-other", "1"),
    ]
    headers.append(("x.!#$%&*+^_`|~y", "odd"))
    await gateway.post({"model": "chat"}, "/v1/embeddings?x=1", headers=headers)
    assert gateway.processor.servicer.attributes == [
        {
            "request.path": "/v1/embeddings?x=1",
            "request.headers['content-type']": "application/json",
            "request.headers['content-encoding']": "identity",
            "request.headers['x-tier']": "free,paid",
            'request.headers["it\'s"]': "so",
            "request.headers['x.!#$%&*+^_`|~y']": "odd",
        }
    ]
