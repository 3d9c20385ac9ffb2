"""A real Envoy: what the gateway answers by itself keeps the contract."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import httpx
import pytest

from tests.xds.conftest import Gateway, cluster, endpoint
from xds_server.resources.by_model import REWRITE_BYTES

pytestmark = pytest.mark.envoy
CHAT = "/v1/chat/completions"
MIB = 1 << 20
MOST = MIB + REWRITE_BYTES  # what lies between is ext_proc's to refuse


def said(response: httpx.Response) -> tuple[int, str | None, str | None]:
    """Status, reason and error code of an answer that has the contract's shape."""
    assert response.headers["content-type"] == "application/json"
    error = response.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    return response.status_code, response.headers.get("x-tidegate-reason"), error["code"]


async def chunks(size: int) -> AsyncIterator[bytes]:
    for _ in range(0, size, 16384):
        yield b"x" * 16384


async def test_the_gateway_answers_by_itself(gateway: Gateway, engines: Any) -> None:
    [engine] = await engines(1)
    await gateway.serve(cluster("chat", endpoint(engine, 1)), cluster("empty"))

    models = await gateway.send("GET", "/v1/models")
    assert [one["id"] for one in models.json()["data"]] == ["chat", "empty"]
    assert models.headers["content-type"] == "application/json"

    assert (await gateway.send("GET", "/health")).status_code == 200

    empty = (400, "invalid-json", "invalid_json")
    assert said(await gateway.send("POST", CHAT)) == empty
    assert said(await gateway.send("POST", CHAT, headers={"content-length": "0"})) == empty

    assert said(await gateway.send("GET", "/elsewhere")) == (404, "not-found", "not_found")

    too_large = (413, "body-too-large", "request_too_large")
    assert said(await gateway.send("POST", CHAT, content=b"x" * (MOST + 1))) == too_large
    assert said(await gateway.send("POST", CHAT, content=chunks(MOST + 16384))) == too_large

    nobody = (503, "no-endpoint", "service_unavailable")
    assert said(await gateway.post({"model": "empty"})) == nobody
    assert said(await gateway.post({"model": "unheard of"})) == nobody

    broke_off = await gateway.post({"model": "chat"}, CHAT + "?break=1")
    assert said(broke_off) == nobody
    assert engine.served[CHAT] == 1, "what an engine may have begun is not repeated"


async def test_the_answers_of_others_pass_untouched(gateway: Gateway, engines: Any) -> None:
    [engine] = await engines(1)
    await gateway.serve(cluster("chat", endpoint(engine, 1)))
    for status in (404, 413, 500, 503):
        answer = await gateway.post({"model": "chat"}, f"{CHAT}?status={status}")
        assert (answer.status_code, answer.json()["engine"]) == (status, "a")
    refused = await gateway.post({"refuse": 429})
    assert (refused.status_code, refused.text) == (429, '{"error": "mine"}')


async def test_http_2_without_tls_is_served_and_refused_alike(gateway: Gateway, engines: Any) -> None:
    [engine] = await engines(1)
    await gateway.serve(cluster("chat", endpoint(engine, 1)))
    url = f"http://127.0.0.1:{gateway.port}{CHAT}"
    async with httpx.AsyncClient(http1=False, http2=True, timeout=60) as client:
        served = await client.post(url, json={"model": "chat"})
        empty = await client.post(url)
    assert (served.http_version, served.json()["engine"]) == ("HTTP/2", "a")
    assert said(empty) == (400, "invalid-json", "invalid_json")


async def test_a_body_of_many_buffers_passes_whole(gateway: Gateway, engines: Any) -> None:
    [engine] = await engines(1)
    gateway.settings["max_request_bytes"] = 8 * MIB
    await gateway.serve(cluster("chat", endpoint(engine, 1)))
    answer = await gateway.post({"model": "chat", "text": "x" * 5_000_000})
    assert (answer.status_code, answer.json()["bytes"]) == (200, 5_000_026)


async def test_three_thousand_models_are_listed_and_found(gateway: Gateway, engines: Any) -> None:
    [engine] = await engines(1)
    names = tuple(f"org-{number % 7}/model-{number}-instruct" for number in range(3000))
    await gateway.serve(replace(cluster("chat", endpoint(engine, 1)), models=names))
    assert [one["id"] for one in (await gateway.send("GET", "/v1/models")).json()["data"]] == list(names)
    for name in (names[0], names[-1]):
        for path in (name, name.replace("/", "%2F")):
            assert (await gateway.send("GET", f"/v1/models/{path}")).json()["id"] == name
    missing = await gateway.send("GET", "/v1/models/org-1/model-3000-instruct")
    assert said(missing) == (404, "model-not-found", "model_not_found")
