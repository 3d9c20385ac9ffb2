"""A real Envoy whose ext_proc is away: Tidegate's own error, no wrong route, and recovery by itself."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conftest import until
from tests.xds.conftest import Gateway, cluster, endpoint
from tests.xds.test_envoy_answers import chunks, said

pytestmark = pytest.mark.envoy


async def test_without_ext_proc_a_request_is_refused_as_temporary(gateway: Gateway, engines: Any) -> None:
    [engine] = await engines(1)
    await gateway.serve(cluster("chat", endpoint(engine, 1)))
    await gateway.processor.stop()

    nobody = (503, "no-endpoint", "service_unavailable")
    assert said(await gateway.post({"model": "chat"})) == nobody
    assert said(await gateway.send("POST", "/v1/chat/completions", content=chunks(16384))) == nobody
    assert (await gateway.send("POST", "/v1/chat/completions")).status_code == 400
    by_anthropic = await gateway.post({"model": "chat"}, "/v1/messages?beta=true")
    assert (by_anthropic.status_code, by_anthropic.json()["error"]["type"]) == (503, "api_error")
    assert (await gateway.send("GET", "/v1/models")).status_code == 200
    assert not engine.requests

    await gateway.processor.start()

    async def served() -> bool:
        return (await gateway.post({"model": "chat"})).status_code == 200

    await until(served, what="requests are served again")
