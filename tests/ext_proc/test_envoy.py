"""The one-message chain through a real Envoy: what a session says is what a client and an engine see."""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from io import BytesIO
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from ext_proc.buffered import Attributes
from ext_proc.flow.later import Reply
from ext_proc.health import Health
from ext_proc.session import Session
from ext_proc.transport.grpcio import GrpcioServer
from tests.conftest import EnvoyProcess, accepts, until
from tests.ext_proc.parts import Picker
from tests.ports import take_free_port
from tidegate.domain.topology import Cluster, Endpoint, LbPolicy, Topology

pytestmark = pytest.mark.envoy

LIMIT = 8 << 20
CHAIN = """
static_resources:
  listeners:
  - address: {socket_address: {address: 127.0.0.1, port_value: %(gateway)d}}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: gateway
          route_config:
            virtual_hosts:
            - name: all
              domains: ["*"]
              routes:
              - match: {prefix: /, dynamic_metadata: [
                  {filter: tidegate, path: [{key: cluster}], value: {string_match: {exact: phi-3}}}]}
                route: {cluster: phi-3, timeout: 60s}
              - match: {prefix: /}
                direct_response: {status: 418}
          http_filters:
          - name: envoy.filters.http.ext_proc
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.ext_proc.v3.ExternalProcessor
              grpc_service: {envoy_grpc: {cluster_name: ext_proc}}
              processing_mode: {request_header_mode: SKIP, request_body_mode: BUFFERED, response_header_mode: SKIP}
              request_attributes: ["request.headers['content-encoding']"]
              message_timeout: 60s
              metadata_options: {receiving_namespaces: {untyped: [tidegate, envoy.lb]}}
          - name: envoy.filters.http.buffer
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.buffer.v3.Buffer
              max_request_bytes: 16777216
          - name: envoy.filters.http.router
            typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}
  clusters:
  - name: phi-3
    load_assignment:
      cluster_name: phi-3
      endpoints:
      - lb_endpoints:
        - endpoint: {address: {socket_address: {address: 127.0.0.1, port_value: %(first)d}}}
        - endpoint: {address: {socket_address: {address: 127.0.0.1, port_value: %(second)d}}}
    load_balancing_policy:
      policies:
      - typed_extension_config:
          name: envoy.load_balancing_policies.override_host
          typed_config:
            "@type": type.googleapis.com/envoy.extensions.load_balancing_policies.override_host.v3.OverrideHost
            override_host_sources:
            - metadata: {key: envoy.lb, path: [{key: x-gateway-destination-endpoint}]}
            fallback_policy:
              policies:
              - typed_extension_config:
                  name: envoy.load_balancing_policies.round_robin
                  typed_config:
                    "@type": type.googleapis.com/envoy.extensions.load_balancing_policies.round_robin.v3.RoundRobin
  - name: ext_proc
    typed_extension_protocol_options:
      envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
        "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
        explicit_http_config: {http2_protocol_options: {}}
    health_checks:
    - {timeout: 60s, interval: 1s, unhealthy_threshold: 1, healthy_threshold: 1, grpc_health_check: {
        service_name: envoy.service.ext_proc.v3.ExternalProcessor}}
    load_assignment:
      cluster_name: ext_proc
      endpoints:
      - lb_endpoints:
        - endpoint: {address: {socket_address: {address: 127.0.0.1, port_value: %(ext_proc)d}}}
"""


def lowered(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


@dataclass
class Engines:
    """Two servers on loopback that say who they are and what they got."""

    ports: list[int] = field(default_factory=list)
    runners: list[web.AppRunner] = field(default_factory=list)

    async def start(self) -> None:
        for _ in range(2):
            app = web.Application(client_max_size=LIMIT * 4)
            app.router.add_post("/{tail:.*}", self.answer)
            runner = web.AppRunner(app, access_log=None)
            await runner.setup()
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            self.ports.append(runner.addresses[0][1])
            self.runners.append(runner)

    async def answer(self, request: web.Request) -> web.Response:
        digest = hashlib.sha256(await request.read()).hexdigest()
        port = request.transport.get_extra_info("sockname")[1] if request.transport else 0
        return web.json_response({"port": port, "sha256": digest, "headers": lowered(request.headers)})


@dataclass
class Gateway:
    picker: Picker
    engines: Engines
    url: str
    client: aiohttp.ClientSession
    crash: bool = False

    def decide(self, body: bytes, attributes: Attributes) -> Reply:
        if self.crash:
            raise RuntimeError("a bug")
        return self.picker.decider.decide(body, attributes)

    async def post(self, body: bytes, **headers: str) -> tuple[int, dict[str, str], Any]:
        async with self.client.post(self.url, data=BytesIO(body), headers=headers) as got:
            text = await got.text()
            is_json = got.headers.get("content-type", "").startswith("application/json")
            return got.status, lowered(got.headers), json.loads(text) if is_json else text

    def idle(self, index: int) -> None:
        """Replica `index` is the less loaded one."""
        for number, port in enumerate(self.engines.ports):
            self.picker.now_ms += 100
            self.picker.sample(f"127.0.0.1:{port}", waiting=0 if number == index else 50)


@pytest.fixture
async def gateway(envoy: Callable[[str], EnvoyProcess]) -> AsyncIterator[Gateway]:
    engines = Engines()
    await engines.start()
    endpoints = tuple(Endpoint(f"127.0.0.1:{port}") for port in engines.ports)
    clusters = (Cluster("phi-3", ("phi-3",), endpoints=endpoints), Cluster("empty", ("nobody",), lb=LbPolicy.WEIGHTED))
    picker, port = Picker(Topology(clusters), max_request_bytes=LIMIT), take_free_port()
    picker.view.registered([], picker.now_ms)
    async with aiohttp.ClientSession() as client:
        gateway = Gateway(picker, engines, f"http://127.0.0.1:{port}/v1/chat/completions", client)
        server = GrpcioServer(
            lambda: Session(gateway.decide), Health(), picker.metrics, max_body_bytes=picker.max_request_bytes
        )
        address = await server.start("127.0.0.1:0")
        ports = {"gateway": port, "first": engines.ports[0], "second": engines.ports[1]}
        envoy(CHAIN % {**ports, "ext_proc": int(address.rpartition(":")[2])})
        await until(lambda: accepts(port), what="Envoy listening")

        async def ready() -> bool:
            return (await gateway.post(b'{"model": "gpt-9"}'))[0] == 404

        await until(ready, what="Envoy sees ext_proc healthy")
        yield gateway
        await server.stop(0)
    for runner in engines.runners:
        await runner.cleanup()


async def test_envoy_sends_each_request_where_the_session_says(gateway: Gateway) -> None:
    for index in (0, 1, 1, 0):
        gateway.idle(index)
        status, _, told = await gateway.post(b'{"model": "phi-3"}')
        assert (status, told["port"]) == (200, gateway.engines.ports[index])


async def test_a_5_mb_body_arrives_byte_for_byte(gateway: Gateway) -> None:
    body = b'{"messages": "' + b"x" * 5_000_000 + b'", "model": "phi-3"}'
    status, _, told = await gateway.post(body)
    assert (status, told["sha256"]) == (200, hashlib.sha256(body).hexdigest())
    assert told["headers"]["content-length"] == str(len(body))


async def test_a_client_cannot_name_its_replica(gateway: Gateway) -> None:
    gateway.idle(0)
    forged = {"x-gateway-destination-endpoint": f"127.0.0.1:{gateway.engines.ports[1]}"}
    for _ in range(4):
        status, _, told = await gateway.post(b'{"model": "phi-3"}', **forged)
        assert (status, told["port"]) == (200, gateway.engines.ports[0])


@pytest.mark.parametrize(
    ("body", "status", "reason"),
    [
        (b"{", 400, "invalid-json"),
        (b"{}", 400, "model-required"),
        (b'{"model": "gpt-9"}', 404, "model-not-found"),
        (b'{"model": "nobody"}', 503, "no-endpoint"),
        (b" " * (LIMIT + 1), 413, "body-too-large"),
    ],
    ids=["json", "required", "unknown", "nobody", "large"],
)
async def test_a_refusal_reaches_the_client_whole(gateway: Gateway, body: bytes, status: int, reason: str) -> None:
    got, headers, answer = await gateway.post(body)
    assert (got, headers["x-tidegate-reason"], headers["content-type"]) == (status, reason, "application/json")
    assert set(answer["error"]) == {"message", "type", "param", "code"}


async def test_an_encoding_that_is_not_read_is_refused(gateway: Gateway) -> None:
    status, headers, _ = await gateway.post(b"\x0b", **{"content-encoding": "br"})
    assert (status, headers["x-tidegate-reason"]) == (415, "unsupported-encoding")
    assert headers["accept-encoding"] == "gzip, zstd"


async def test_a_crash_does_not_let_the_request_through(gateway: Gateway) -> None:
    gateway.crash = True
    assert (await gateway.post(b'{"model": "phi-3"}'))[0] == 500
    gateway.crash = False
    assert (await gateway.post(b'{"model": "phi-3"}'))[0] == 200


async def test_finished_requests_leave_no_stream_open(gateway: Gateway) -> None:
    for _ in range(20):
        await gateway.post(b'{"model": "phi-3"}')
    await until(lambda: gateway.picker.registry.get_sample_value("tidegate_ext_proc_open_streams") == 0)
