"""grpcio's own xDS client, the second real one: state of the world, aggregated, every resource by its name."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import pytest
from envoy.config.cluster.v3 import cluster_pb2
from envoy.config.core.v3 import health_check_pb2
from envoy.config.endpoint.v3 import endpoint_pb2
from envoy.config.listener.v3 import listener_pb2
from envoy.config.route.v3 import route_pb2
from envoy.extensions.filters.http.router.v3 import router_pb2
from envoy.extensions.filters.network.http_connection_manager.v3 import http_connection_manager_pb2 as hcm
from prometheus_client import CollectorRegistry

from tests.conftest import until
from xds_server.cache import SnapshotCache
from xds_server.metrics import XdsMetrics
from xds_server.resources.clusters import over_ads
from xds_server.resources.endpoints import socket_address
from xds_server.server import DiscoveryServicer, Streams, start
from xds_server.snapshot import snapshot_of
from xds_server.subscription.stream import StreamStatus
from xds_server.type_urls import CLUSTER, ENDPOINT, LISTENER, ROUTE

DRAINING = health_check_pb2.DRAINING


@dataclass
class Backend:
    """Answers with its name."""

    name: str
    port: int = 0
    server: Any = field(default_factory=grpc.aio.server)

    async def start(self) -> None:
        async def who(_: bytes, __: Any) -> bytes:
            return self.name.encode()

        handler = grpc.method_handlers_generic_handler("tests.Who", {"Are": grpc.unary_unary_rpc_method_handler(who)})
        self.server.add_generic_rpc_handlers((handler,))
        self.port = self.server.add_insecure_port("127.0.0.1:0")
        await self.server.start()


def listener() -> Any:
    router = hcm.HttpFilter(name="router")
    router.typed_config.Pack(router_pb2.Router())
    manager = hcm.HttpConnectionManager(
        rds=hcm.Rds(config_source=over_ads(), route_config_name="r1"), http_filters=[router]
    )
    one = listener_pb2.Listener(name="svc1")
    one.api_listener.api_listener.Pack(manager)
    return one


def routes() -> Any:
    table = route_pb2.RouteConfiguration(name="r1")
    host = table.virtual_hosts.add(name="all", domains=["*"])
    host.routes.add(match={"prefix": ""}, route={"cluster": "c1"})
    return table


def cluster(stat_name: str = "") -> Any:
    return cluster_pb2.Cluster(
        name="c1",
        alt_stat_name=stat_name,
        type=cluster_pb2.Cluster.EDS,
        eds_cluster_config=cluster_pb2.Cluster.EdsClusterConfig(eds_config=over_ads()),
    )


def assignment(ports: Sequence[int], draining: Sequence[int] = (), priority: int = 0) -> Any:
    one = endpoint_pb2.ClusterLoadAssignment(cluster_name="c1")
    locality = one.endpoints.add(locality={"region": "here"}, load_balancing_weight={"value": 1}, priority=priority)
    for port in ports:
        endpoint = locality.lb_endpoints.add(load_balancing_weight={"value": 1})
        endpoint.endpoint.address.CopyFrom(socket_address("127.0.0.1", port))
        endpoint.health_status = DRAINING if port in draining else health_check_pb2.HEALTHY
    return one


@dataclass
class World:
    """An xDS server, two backends, and a caller that finds them by it."""

    cache: SnapshotCache
    streams: Streams
    backends: list[Backend]
    process: asyncio.subprocess.Process

    def serve(self, assigned: Any, *, clusters: Sequence[Any] = ()) -> None:
        named = {c.name: c for c in clusters or [cluster()]}
        if assigned is None:
            resources: dict[str, dict[str, Any]] = {CLUSTER: {}, ENDPOINT: {}}
        else:
            resources = {CLUSTER: named, ENDPOINT: {"c1": assigned}}
        self.cache.set(snapshot_of({**resources, LISTENER: {"svc1": listener()}, ROUTE: {"r1": routes()}}))

    async def call(self) -> str:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(b"\n")
        return (await self.process.stdout.readline()).decode().strip()

    def status(self) -> StreamStatus | None:
        return next(iter(self.streams.status(0)), None)

    async def answers(self, expected: str) -> None:
        async def answered() -> bool:
            return await self.call() == expected

        await until(answered, what=f"{expected} answers")


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with AsyncExitStack() as stack:
        cache, streams = SnapshotCache(), Streams(XdsMetrics(CollectorRegistry()))
        server, address = await start("127.0.0.1:0", DiscoveryServicer(cache, streams, lambda: 0))
        stack.push_async_callback(server.stop, 0)
        backends = [Backend("a"), Backend("b")]
        for backend in backends:
            await backend.start()
            stack.push_async_callback(backend.server.stop, 0)
        process = await caller(tmp_path, address)
        stack.push_async_callback(process.wait)
        stack.callback(partial(process.stdin.close))  # type: ignore[union-attr]
        yield World(cache, streams, backends, process)


async def caller(folder: Path, xds_address: str) -> asyncio.subprocess.Process:
    xds = {"server_uri": xds_address, "channel_creds": [{"type": "insecure"}], "server_features": ["xds_v3"]}
    bootstrap = folder / "bootstrap.json"
    bootstrap.write_text(json.dumps({"xds_servers": [xds], "node": {"id": "grpc-1"}}))
    pipe = asyncio.subprocess.PIPE
    return await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "tests.xds.grpc_caller", "xds:///svc1"),
        stdin=pipe,
        stdout=pipe,
        env={**os.environ, "GRPC_XDS_BOOTSTRAP": str(bootstrap), "GRPC_VERBOSITY": "NONE"},
    )


async def test_fact_56_grpc_finds_its_backend_by_explicit_names_and_accepts_all_four_types(world: World) -> None:
    a, _ = world.backends
    world.serve(assignment([a.port]))
    assert await world.call() == "a"
    all_four = {"cds", "eds", "lds", "rds"}
    await until(lambda: (status := world.status()) and set(status.acked) == all_four, what="its last word")
    status = world.status()
    assert status is not None
    assert (status.node, status.nacked) == ("grpc-1", {})


async def test_fact_56_grpc_honours_draining(world: World) -> None:
    a, b = world.backends
    world.serve(assignment([a.port]))
    await world.answers("a")
    world.serve(assignment([a.port, b.port], draining=[a.port]))
    await world.answers("b")
    assert {await world.call() for _ in range(6)} == {"b"}


async def test_fact_56_a_cluster_that_was_deleted_and_comes_back_gets_its_endpoints_again(world: World) -> None:
    a, b = world.backends
    world.serve(assignment([a.port]))
    await world.answers("a")
    world.serve(None)
    await world.answers("UNAVAILABLE")
    world.serve(assignment([b.port]))
    await world.answers("b")


async def test_fact_53_grpc_refuses_a_gap_of_priorities_once_and_takes_what_comes_after(world: World) -> None:
    a, b = world.backends
    world.serve(assignment([a.port]))
    await world.answers("a")
    world.serve(assignment([b.port], priority=2))
    await until(lambda: (status := world.status()) and "eds" in status.refusing, what="the refusal")
    assert await world.call() == "a"
    world.serve(assignment([b.port], priority=2), clusters=[cluster("changed")])
    await world.answers("a")
    world.serve(assignment([b.port]))
    await world.answers("b")
    await until(lambda: (status := world.status()) and status.refusing == (), what="its last word")
