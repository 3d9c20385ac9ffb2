"""A real Envoy without ext_proc: it reads models itself, and what runs goes on as it changes over."""

from __future__ import annotations

from typing import Any

import pytest

from tests.xds.conftest import Gateway, cluster, endpoint
from tests.xds.test_envoy_answers import chunks, said
from tidegate.domain.topology import WithoutPicker
from xds_server.desired import NameRule

pytestmark = pytest.mark.envoy

NOBODY = (503, "no-endpoint", "service_unavailable")


async def engine_of(gateway: Gateway, body: Any, **more: Any) -> str:
    answer = await gateway.post(body, **more)
    assert answer.status_code == 200, answer.text
    return str(answer.json()["engine"])


async def test_each_model_reaches_its_own_cluster(gateway: Gateway, engines: Any) -> None:
    one, two = await engines(2)
    await gateway.processor.stop()
    gateway.settings["picker_away"] = True
    await gateway.serve(cluster("chat", endpoint(one, 1)), cluster("images", endpoint(two, 1)))

    assert await engine_of(gateway, {"model": "chat"}) == "a"
    assert await engine_of(gateway, {"model": "images"}) == "b"
    assert await engine_of(gateway, {"messages": ["x" * 900_000], "model": "images"}) == "b"
    assert said(await gateway.post({"model": "nobody"})) == NOBODY
    assert said(await gateway.post({"no": "model"})) == NOBODY
    assert said(await gateway.send("POST", "/v1/chat/completions", content=b"{")) == NOBODY
    assert said(await gateway.send("POST", "/v1/chat/completions", content=chunks(16384))) == NOBODY
    assert (await gateway.send("POST", "/v1/chat/completions")).status_code == 400
    assert (await gateway.post({"model": "chat", "x": "y" * (2 << 20)})).status_code == 413


async def test_what_ext_proc_would_have_to_rewrite_is_refused(gateway: Gateway, engines: Any) -> None:
    one, _ = await engines(2)
    gateway.settings |= {"picker_away": True, "aliases": ("gpt",), "name_rules": (NameRule(cluster="chat"),)}
    await gateway.serve(cluster("chat", endpoint(one, 1)))
    assert said(await gateway.post({"model": "gpt"})) == NOBODY
    assert await engine_of(gateway, {"model": "anything"}) == "a"


async def test_rules_of_names_and_headers_hold_and_a_body_without_model_gets_the_default(
    gateway: Gateway, engines: Any
) -> None:
    one, two = await engines(2)
    free = NameRule(cluster="small", model="chat", headers=(("x-tier", "free"),))
    gateway.settings |= {"picker_away": True, "name_rules": (free,), "default_model": "small"}
    await gateway.serve(cluster("chat", endpoint(one, 1)), cluster("small", endpoint(two, 1)))
    assert await engine_of(gateway, {"model": "chat"}) == "a"
    assert await engine_of(gateway, {"model": "chat"}, headers={"x-tier": "free"}) == "b"
    assert await engine_of(gateway, {"model": "chat"}, headers={"x-tier": "paid"}) == "a"
    assert await engine_of(gateway, {"prompt": "hello"}) == "b"


async def test_changing_over_and_back_touches_routes_alone_and_no_stream_that_runs(
    gateway: Gateway, engines: Any
) -> None:
    [engine] = await engines(1)
    chat = cluster("chat", endpoint(engine, 1))
    await gateway.serve(chat)
    url = f"http://127.0.0.1:{gateway.port}/v1/chat/completions?stream=1"
    async with gateway.client.stream("POST", url, json={"model": "chat"}) as answer:
        events = answer.aiter_lines()
        assert await anext(events) == "data: 0"
        for away in (True, False):
            gateway.settings["picker_away"] = away
            [changed] = await gateway.serve(chat)
            assert changed.endswith("RouteConfiguration")
            assert await engine_of(gateway, {"model": "chat"}) == "a"
        assert len(gateway.processor.servicer.attributes) == 2
        for number in (1, 2):
            engine.next_event.set()
            assert await anext(line async for line in events if line) == f"data: {number}"
            if number == 1:
                await until_cleared(engine)


async def until_cleared(engine: Any) -> None:
    from tests.conftest import until

    await until(lambda: not engine.next_event.is_set(), what="the event being sent")


async def test_always_reading_models_loses_not_one_request_and_ext_proc_still_chooses(
    gateway: Gateway, engines: Any
) -> None:
    one, two = await engines(2)
    gateway.settings["without_picker"] = WithoutPicker.BY_MODEL_ALWAYS
    await gateway.serve(cluster("chat", endpoint(one, 1), endpoint(two, 1)))
    assert await engine_of(gateway, {"model": "chat"}) in "ab"
    assert len(gateway.processor.servicer.attributes) == 1
    await gateway.processor.stop()
    for _ in range(20):
        assert await engine_of(gateway, {"model": "chat"}) in "ab"


async def test_where_the_file_says_so_requests_are_refused(gateway: Gateway, engines: Any) -> None:
    [engine] = await engines(1)
    gateway.settings |= {"without_picker": WithoutPicker.REFUSE, "picker_away": True}
    await gateway.processor.stop()
    await gateway.serve(cluster("chat", endpoint(engine, 1)))
    assert said(await gateway.post({"model": "chat"})) == NOBODY
