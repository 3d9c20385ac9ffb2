"""A real Envoy without ext_proc that reads models itself."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conftest import until
from tests.xds.conftest import Gateway, cluster, endpoint
from tests.xds.test_envoy_answers import said
from tidegate.domain.topology import WithoutPicker
from xds_server.desired import NameRule

pytestmark = pytest.mark.envoy


async def test_away(gateway: Gateway, engines: Any) -> None:
    one, two = await engines(2)
    both = cluster("chat", endpoint(one, 1)), cluster("images", endpoint(two, 1))
    await gateway.serve(*both)
    assert (await gateway.post({"model": "chat"})).json()["engine"] == "a"
    await gateway.processor.stop()
    print(said(await gateway.post({"model": "chat"})))
    gateway.settings["picker_away"] = True
    print(await gateway.serve(*both))
    answer = await gateway.post({"model": "chat"})
    print(answer.status_code, answer.text)
    answer = await gateway.post({"model": "images", "x": "y" * 3_000_00})
    print(answer.status_code, answer.text)
    answer = await gateway.post({"model": "nobody"})
    print(answer.status_code, answer.text)
    answer = await gateway.send("POST", "/v1/chat/completions")
    print(answer.status_code, answer.text)
    assert 0
