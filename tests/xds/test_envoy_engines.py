"""A real Envoy and the engines behind it: what protocol they speak, and who gets what names one that is set aside."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.conftest import EnvoyProcess, accepts, until
from tests.ports import take_free_port
from tests.xds.conftest import Gateway, cluster, endpoint
from tidegate.domain.topology import LbPolicy
from tidegate.domain.upstream import DEFAULT, Http
from xds_server.desired import DesiredEndpoint

pytestmark = pytest.mark.envoy

HCM = "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager"
ROUTER = "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"


def http2_engine(port: int) -> str:
    """An Envoy that speaks HTTP/2 without TLS and nothing else, and answers every request itself."""
    answer = {"match": {"prefix": "/"}, "direct_response": {"status": 200, "body": {"inline_string": "by h2"}}}
    manager = {
        "@type": HCM,
        "stat_prefix": "engine",
        "codec_type": "HTTP2",
        "route_config": {"virtual_hosts": [{"name": "all", "domains": ["*"], "routes": [answer]}]},
        "http_filters": [{"name": "router", "typed_config": {"@type": ROUTER}}],
    }
    listener = {
        "address": {"socket_address": {"address": "127.0.0.1", "port_value": port}},
        "filter_chains": [{"filters": [{"name": "http", "typed_config": manager}]}],
    }
    return json.dumps({"static_resources": {"listeners": [listener]}})


@pytest.mark.parametrize(("status", "http"), [(200, Http.HTTP2), (503, Http.HTTP1)])
async def test_an_engine_of_http2_without_tls_is_reached_as_the_cluster_says(
    gateway: Gateway, envoy: Callable[[str], EnvoyProcess], status: int, http: Http
) -> None:
    port = take_free_port()
    envoy(http2_engine(port))
    await until(lambda: accepts(port), what="the engine listening")
    there = DesiredEndpoint(address=f"127.0.0.1:{port}", ip="127.0.0.1", port=port, weight=1)
    await gateway.serve(replace(cluster("chat", there), upstream=replace(DEFAULT, http=http)))
    answer = await gateway.post({"model": "chat"})
    assert (answer.status_code, answer.text == "by h2") == (status, status == 200)


async def test_a_replica_that_is_set_aside_still_gets_the_requests_that_name_it(gateway: Gateway, engines: Any) -> None:
    """override_host looks at no ejection: whoever names replicas has to know."""
    one, two = await engines(2)
    chat = cluster("chat", endpoint(one, 1), endpoint(two, 1), lb=LbPolicy.PICK)
    await gateway.serve(chat)
    names_it_first = {"model": "chat", "pick": f"{one.address},{two.address}"}
    for _ in range(DEFAULT.eject_after):
        assert (await gateway.post(names_it_first, "/v1/chat/completions?status=500")).status_code == 500
    names_nobody = {(await gateway.post({"model": "chat"})).json()["engine"] for _ in range(6)}
    assert names_nobody == {"b"}
    assert {(await gateway.post(names_it_first)).json()["engine"] for _ in range(6)} == {"a"}
