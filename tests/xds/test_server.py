"""The ADS server over a real channel."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import grpc
import pytest
from envoy.service.discovery.v3 import ads_pb2_grpc, discovery_pb2
from prometheus_client import CollectorRegistry

from tests.conftest import until
from tests.xds.worlds import DESIRED, endpoint, with_endpoints
from tidegate.domain.errors import ConfigError
from xds_server.cache import SnapshotCache
from xds_server.metrics import XdsMetrics
from xds_server.resources import build
from xds_server.server import DiscoveryServicer, Streams, start
from xds_server.snapshot import snapshot_of
from xds_server.type_urls import CLUSTER, ENDPOINT


@dataclass
class Served:
    cache: SnapshotCache
    streams: Streams
    registry: CollectorRegistry
    address: str
    channel: Any

    def open(self) -> Any:
        return ads_pb2_grpc.AggregatedDiscoveryServiceStub(self.channel).StreamAggregatedResources()

    def counted(self, what: str, kind: str) -> float | None:
        return self.registry.get_sample_value(f"tidegate_xds_{what}_total", {"type": kind})


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    registry, cache = CollectorRegistry(), SnapshotCache()
    streams = Streams(XdsMetrics(registry))
    server, address = await start("127.0.0.1:0", DiscoveryServicer(cache, streams, lambda: 0))
    options = [("grpc.max_receive_message_length", -1)]
    async with grpc.aio.insecure_channel(address, options=options) as channel:
        yield Served(cache, streams, registry, address, channel)
    await server.stop(0)


def request(type_url: str, *names: str, nonce: str = "", **more: Any) -> Any:
    return discovery_pb2.DiscoveryRequest(
        type_url=type_url, resource_names=names, response_nonce=nonce, node={"id": "envoy-1"}, **more
    )


async def test_a_snapshot_reaches_a_stream_that_asked_before_it_was_there(served: Served) -> None:
    stream = served.open()
    await stream.write(request(CLUSTER))
    await until(lambda: served.streams.status(0), what="the stream is seen")
    served.cache.set(snapshot_of(build(DESIRED)))
    response = await stream.read()
    assert (response.type_url, len(response.resources)) == (CLUSTER, 3)


async def test_a_change_reaches_every_stream(served: Served) -> None:
    served.cache.set(snapshot_of(build(with_endpoints(endpoint(1, 1)))))
    streams = [served.open() for _ in range(3)]
    for stream in streams:
        await stream.write(request(ENDPOINT, "chat"))
        await stream.read()
    served.cache.set(snapshot_of(build(with_endpoints(endpoint(1, 2)))))
    versions = {(await stream.read()).version_info for stream in streams}
    assert versions == {served.cache.snapshot.version(ENDPOINT)}  # type: ignore[union-attr]


async def test_acks_and_nacks_are_counted_and_seen(served: Served) -> None:
    served.cache.set(snapshot_of(build(DESIRED)))
    stream = served.open()
    await stream.write(request(CLUSTER))
    first = await stream.read()
    await stream.write(request(CLUSTER, nonce=first.nonce))
    await stream.write(request(ENDPOINT, "chat"))
    second = await stream.read()
    await stream.write(request(ENDPOINT, "chat", nonce=second.nonce, error_detail={"message": "no"}))
    await until(lambda: served.streams.status(0)[0].last_error == "no", what="the NACK is seen")
    assert served.counted("acks", "cds") == 1
    assert served.counted("nacks", "eds") == 1
    assert (served.counted("pushes", "cds"), served.counted("pushes", "eds")) == (1, 1)


async def test_fact_20_a_closed_stream_leaves_nothing_behind(served: Served) -> None:
    stream = served.open()
    await stream.write(request(CLUSTER))
    await until(lambda: served.cache.watchers == 1, what="the stream watches")
    stream.cancel()
    await until(lambda: served.cache.watchers == 0, what="the watch is gone")
    await until(lambda: served.streams.status(0) == [], what="the stream is gone")


async def test_a_half_closed_stream_ends_well(served: Served) -> None:
    stream = served.open()
    await stream.write(request(CLUSTER))
    await stream.done_writing()
    assert await stream.read() is grpc.aio.EOF
    assert await stream.code() is grpc.StatusCode.OK


async def test_a_request_without_type_url_ends_the_stream_with_a_sentence(served: Served) -> None:
    stream = served.open()
    await stream.write(request(""))
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await stream.read()
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "type_url" in (caught.value.details() or "")


async def test_an_assignment_beyond_grpc_s_default_size_goes_through(served: Served) -> None:
    many = [endpoint(1, 1, takes_traffic=True)]
    many = [
        type(many[0])(address="x" * 200 + f"{n}:1", ip=f"10.{n >> 16}.{n >> 8 & 255}.{n & 255}", port=1, weight=1)
        for n in range(20_000)
    ]
    served.cache.set(snapshot_of(build(with_endpoints(*many))))
    stream = served.open()
    await stream.write(request(ENDPOINT, "chat"))
    assert (await stream.read()).ByteSize() > 4 * 1024 * 1024


async def test_a_taken_port_is_said_in_a_sentence(served: Served) -> None:
    with pytest.raises(ConfigError, match="cannot listen"):
        await start(served.address, DiscoveryServicer(served.cache, served.streams, lambda: 0))
