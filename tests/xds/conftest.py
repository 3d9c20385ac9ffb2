"""A whole gateway for tests: our xDS server, a real Envoy, engines and an ext_proc that obeys."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

import httpx
import pytest
from prometheus_client import CollectorRegistry

from tests.conftest import EnvoyProcess, accepts, until
from tests.ports import take_free_port
from tests.xds.stand_ins import CuttingServicer, Engine, Processor
from tidegate.domain.topology import LbPolicy
from tidegate.runtime import now_ms
from xds_server.bootstrap import bootstrap_yaml
from xds_server.cache import SnapshotCache
from xds_server.consistency import check
from xds_server.desired import Desired, DesiredCluster, DesiredEndpoint
from xds_server.metrics import XdsMetrics
from xds_server.resources import build, clusters, listener
from xds_server.resources.names import EXT_PROC_CLUSTER
from xds_server.server import Streams, start
from xds_server.snapshot import Snapshot, snapshot_of
from xds_server.subscription.stream import StreamStatus
from xds_server.type_urls import CLUSTER, ENDPOINT, SHORT_NAMES

both_protocols = pytest.mark.parametrize("gateway", ["delta", "sotw"], indirect=True)


def endpoint(engine: Engine, weight: int | None = None, **more: Any) -> DesiredEndpoint:
    """The engine as an endpoint."""
    return DesiredEndpoint(address=engine.address, ip="127.0.0.1", port=engine.port, weight=weight, **more)


def cluster(name: str, *endpoints: DesiredEndpoint, lb: LbPolicy = LbPolicy.WEIGHTED) -> DesiredCluster:
    """A cluster that serves the model of its own name."""
    return DesiredCluster(name=name, models=(name,), lb=lb, endpoints=endpoints)


@dataclass
class Gateway:
    """Everything up to the engines. `serve` publishes clusters and waits until Envoy has accepted all of it."""

    streams: Streams
    processor: Processor
    start_envoy: Callable[[str], EnvoyProcess]
    xds_address: str
    cache: SnapshotCache = field(default_factory=SnapshotCache)
    port: int = field(default_factory=take_free_port)
    admin_port: int = field(default_factory=take_free_port)
    client: httpx.AsyncClient = field(default_factory=lambda: httpx.AsyncClient(timeout=60))
    envoy: EnvoyProcess | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    pushed: dict[str, str] = field(default_factory=dict)
    protocol: Literal["delta", "sotw"] = "delta"
    servicer: CuttingServicer = field(kw_only=True)
    stop_xds: Callable[[], Awaitable[None]] = field(kw_only=True)

    def desired(self, *clusters: DesiredCluster) -> Desired:
        basis = {"max_request_bytes": 1 << 20, "expose_routing": True, **self.settings}
        return Desired(
            listen_host="127.0.0.1",
            listen_port=self.port,
            ext_proc_host="127.0.0.1",
            ext_proc_port=self.processor.port,
            clusters=clusters,
            **basis,
        )

    def snapshot(self, *served: DesiredCluster) -> Snapshot:
        """What is served. A busy ext_proc is slow to answer, and not away: that is refused connections, NOT_SERVING."""
        messages = build(self.desired(*served))
        messages[CLUSTER][EXT_PROC_CLUSTER].health_checks[0].timeout.seconds = 60
        check(messages)
        return snapshot_of(messages)

    async def serve(self, *served: DesiredCluster) -> tuple[str, ...]:
        """The type URLs that changed."""
        snapshot, before = self.snapshot(*served), self.cache.snapshot
        endpoints = before.resources(ENDPOINT) if before else {}
        self.pushed = {short: snapshot.version(url) for url, short in SHORT_NAMES.items()}
        if all(endpoints.get(name) == one for name, one in snapshot.resources(ENDPOINT).items()):
            del self.pushed["eds"]  # an assignment that is only left out is not pushed
        changed = self.cache.set(snapshot)
        if self.envoy is None:
            admin = f"127.0.0.1:{self.admin_port}"
            text = bootstrap_yaml(self.xds_address, admin, node_id="test-envoy", protocol=self.protocol)
            self.envoy = self.start_envoy(text)
        await until(self.settled, what="Envoy accepting the snapshot")
        await until(lambda: accepts(self.port), what="Envoy listening")
        return changed

    def settled(self) -> bool:
        """Whether Envoy accepted all that the last `serve` changed."""
        return any(self.pushed.items() <= one.acked.items() and one.oldest_unacked_ms is None for one in self.status())

    def status(self) -> list[StreamStatus]:
        return self.streams.status(now_ms())

    async def post(self, body: Mapping[str, Any], path: str = "/v1/chat/completions", **more: Any) -> httpx.Response:
        return await self.client.post(f"http://127.0.0.1:{self.port}{path}", json=body, **more)

    async def send(self, method: str, path: str, **more: Any) -> httpx.Response:
        return await self.client.request(method, f"http://127.0.0.1:{self.port}{path}", **more)

    async def admin(self, path: str) -> httpx.Response:
        return await self.client.get(f"http://127.0.0.1:{self.admin_port}{path}")

    async def stat(self, name: str) -> int:
        """A counter or gauge of Envoy by its full name."""
        lines = (await self.admin("/stats")).text.splitlines()
        return next(int(line.split(": ")[1]) for line in lines if line.startswith(f"{name}: "))


@pytest.fixture
def envoy_never_gives_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it is not sent it waits for for ever, instead of 15 s: what ends is the server's doing."""

    def waiting() -> Any:
        source = over_ads()
        source.initial_fetch_timeout.SetInParent()
        return source

    over_ads = clusters.over_ads
    for module in (clusters, listener):
        monkeypatch.setattr(module, "over_ads", waiting)


@pytest.fixture
async def gateway(
    request: pytest.FixtureRequest, envoy: Callable[[str], EnvoyProcess], monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Gateway]:
    monkeypatch.setattr(listener, "EXT_PROC_TIMEOUT_SECONDS", 60.0)  # it runs in this process, which may be held up
    async with AsyncExitStack() as stack:
        streams, cache, processor = Streams(XdsMetrics(CollectorRegistry())), SnapshotCache(), Processor()
        servicer = CuttingServicer(cache, streams, now_ms)
        server, address = await start("127.0.0.1:0", servicer)
        stop_xds = partial(server.stop, 0)
        stack.push_async_callback(stop_xds)
        await processor.start()
        stack.push_async_callback(processor.stop)
        one = Gateway(streams, processor, envoy, address, cache, servicer=servicer, stop_xds=stop_xds)
        one.protocol = getattr(request, "param", "delta")
        stack.push_async_callback(one.client.aclose)
        yield one


@pytest.fixture
async def engines() -> AsyncIterator[Callable[..., Any]]:
    """`await engines(n)` starts n engines, named a, b, c …"""
    started: list[Engine] = []

    async def start_engines(count: int) -> list[Engine]:
        for number in range(count):
            started.append(Engine("abcdefgh"[number]))
            await started[-1].start()
        return started

    yield start_engines
    for engine in started:
        await engine.stop()
