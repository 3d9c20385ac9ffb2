"""Simulated Envoys: gRPC streams with a connection each, which ask, accept and come back as Envoy does."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from envoy.config.cluster.v3 import cluster_pb2
from envoy.service.discovery.v3 import discovery_pb2 as pb
from grpc import aio

from xds_server.services import AGGREGATED
from xds_server.type_urls import CLUSTER, ENDPOINT, LISTENER, ROUTE

OPTIONS = [("grpc.max_receive_message_length", -1), ("grpc.use_local_subchannel_pool", 1)]
METHODS = {"delta": "DeltaAggregatedResources", "sotw": "StreamAggregatedResources"}


@dataclass
class Envoy:
    """One stream with a connection of its own; it accepts every response at once."""

    address: str
    protocol: str
    connections: int = 0
    responses: int = 0
    received_bytes: int = 0
    held: dict[str, dict[str, str]] = field(default_factory=dict)
    channel: Any = None
    task: asyncio.Task[None] | None = None
    waiting: dict[str, list[asyncio.Future[int]]] = field(default_factory=dict)
    names: list[str] = field(default_factory=list)
    added: list[str] = field(default_factory=list)
    nonces: dict[str, str] = field(default_factory=dict)

    async def reconnect(self) -> None:
        await self.close()
        self.connections += 1
        self.nonces.clear()
        self.channel = aio.insecure_channel(self.address, options=OPTIONS)
        self.task = asyncio.create_task(self._talk())

    async def close(self) -> None:
        if self.task is not None:
            self.task.cancel()
            await asyncio.gather(self.task, return_exceptions=True)
        if self.channel is not None:
            await self.channel.close()
        if self.protocol == "sotw":
            self.held.clear()

    def is_started(self) -> bool:
        return self.held.keys() >= {CLUSTER, ENDPOINT, LISTENER, ROUTE} and len(self.held[ENDPOINT]) >= len(self.names)

    async def started(self) -> None:
        while not self.is_started():
            await asyncio.sleep(0.002)

    async def next_endpoints(self) -> int:
        return await self.next_of(ENDPOINT)

    async def next_of(self, type_url: str) -> int:
        """The monotonic time in ns at which the next response of a type comes."""
        future = asyncio.get_running_loop().create_future()
        self.waiting.setdefault(type_url, []).append(future)
        return int(await future)

    async def _talk(self) -> None:
        call = self.channel.stream_stream(f"/{AGGREGATED}/{METHODS[self.protocol]}")()
        asked: set[str] = set()
        for type_url in (CLUSTER, *((ENDPOINT, LISTENER, ROUTE) if self.protocol == "delta" and self.names else ())):
            await call.write(self._ask(type_url, first=True))
            asked.add(type_url)
        while (data := await call.read()) is not aio.EOF:
            response = self._take(data)
            await call.write(self._ask(response.type_url, response.nonce))
            if response.type_url == CLUSTER and ENDPOINT in asked and self.added:
                nonce = self.nonces[ENDPOINT] if self.protocol == "sotw" and ENDPOINT in self.nonces else ""
                await call.write(self._ask(ENDPOINT, nonce))
            for type_url in (ENDPOINT, LISTENER, ROUTE):
                if type_url not in asked:
                    asked.add(type_url)
                    await call.write(self._ask(type_url, first=True))

    def _take(self, data: bytes) -> Any:
        at = time.monotonic_ns()
        self.responses += 1
        self.received_bytes += len(data)
        kind = pb.DeltaDiscoveryResponse if self.protocol == "delta" else pb.DiscoveryResponse
        response = kind.FromString(data)
        for future in self.waiting.pop(response.type_url, []):
            if not future.done():
                future.set_result(at)
        self.nonces[response.type_url] = response.nonce
        held = self.held.setdefault(response.type_url, {})
        if self.protocol == "delta":
            held.update({r.name: r.version for r in response.resources})
        else:
            held.update({str(number): response.version_info for number in range(len(response.resources))})
        if response.type_url == CLUSTER:
            self.added = [name for name in _eds_clusters(response, self.protocol) if name not in self.names]
            self.names += self.added
        return response

    def _ask(self, type_url: str, nonce: str = "", *, first: bool = False) -> bytes:
        names = {ENDPOINT: self.names, ROUTE: ["gateway"]}.get(type_url, [])
        node = {"node": {"id": f"envoy-{id(self)}"}} if first else {}
        if self.protocol == "sotw":
            request: Any = pb.DiscoveryRequest(type_url=type_url, resource_names=names, response_nonce=nonce, **node)
        elif nonce:
            request = pb.DeltaDiscoveryRequest(type_url=type_url, response_nonce=nonce)
        else:
            held = self.held.get(type_url, {}) if first else {}
            request = pb.DeltaDiscoveryRequest(
                type_url=type_url,
                resource_names_subscribe=names if first else self.added,
                initial_resource_versions=held,
                **node,
            )
        return bytes(request.SerializeToString())


def _eds_clusters(response: Any, protocol: str) -> list[str]:
    bodies = [r.resource for r in response.resources] if protocol == "delta" else response.resources
    clusters = [cluster_pb2.Cluster.FromString(body.value) for body in bodies]
    return [c.name for c in clusters if c.type == cluster_pb2.Cluster.EDS]


@asynccontextmanager
async def running(envoys: Sequence[Envoy]) -> AsyncIterator[None]:
    await asyncio.gather(*(envoy.reconnect() for envoy in envoys))
    try:
        yield
    finally:
        await asyncio.gather(*(envoy.close() for envoy in envoys))
