"""What the port offers beside aggregated state of the world: delta, a service a type, groups, health, reflection."""

from __future__ import annotations

from typing import Any

import grpc
import pytest
from envoy.service.cluster.v3 import cds_pb2_grpc
from envoy.service.discovery.v3 import ads_pb2_grpc, discovery_pb2
from envoy.service.endpoint.v3 import eds_pb2_grpc
from envoy.service.listener.v3 import lds_pb2_grpc
from envoy.service.route.v3 import rds_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from tests.conftest import until
from tests.xds.test_server import Served, request
from tests.xds.test_server import served as served  # noqa: PLC0414 - a fixture
from tests.xds.worlds import DESIRED, endpoint, with_endpoints
from tidegate.grpc_health import HEALTH, SERVING, check_request
from xds_server.resources import build
from xds_server.services import AGGREGATED, SERVICES
from xds_server.snapshot import snapshot_of
from xds_server.type_urls import CLUSTER, ENDPOINT, LISTENER, ROUTE

STUBS = {
    CLUSTER: (cds_pb2_grpc.ClusterDiscoveryServiceStub, "Clusters", ["chat"]),
    ENDPOINT: (eds_pb2_grpc.EndpointDiscoveryServiceStub, "Endpoints", ["chat"]),
    LISTENER: (lds_pb2_grpc.ListenerDiscoveryServiceStub, "Listeners", ["gateway"]),
    ROUTE: (rds_pb2_grpc.RouteDiscoveryServiceStub, "Routes", ["gateway"]),
}


def delta(type_url: str = "", *names: str, **more: Any) -> Any:
    return discovery_pb2.DeltaDiscoveryRequest(
        type_url=type_url, resource_names_subscribe=names, node={"id": "envoy-1"}, **more
    )


@pytest.mark.parametrize("type_url", STUBS, ids=["cds", "eds", "lds", "rds"])
async def test_every_type_has_a_service_of_its_own_in_both_protocols(served: Served, type_url: str) -> None:
    served.cache.set(snapshot_of(build(DESIRED)))
    stub, plural, names = STUBS[type_url]
    whole = getattr(stub(served.channel), f"Stream{plural}")()
    await whole.write(discovery_pb2.DiscoveryRequest(resource_names=names, node={"id": "e"}))
    response = await whole.read()
    changes = getattr(stub(served.channel), f"Delta{plural}")()
    await changes.write(delta("", *names))
    first = await changes.read()
    assert (response.type_url, first.type_url) == (type_url, type_url)
    assert [r.name for r in first.resources] == names
    assert first.resources[0].resource == response.resources[0]


async def test_a_stream_of_one_type_ends_when_another_is_asked_for(served: Served) -> None:
    stream = eds_pb2_grpc.EndpointDiscoveryServiceStub(served.channel).StreamEndpoints()
    await stream.write(request(CLUSTER))
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await stream.read()
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT


async def test_a_change_and_a_removal_go_over_an_aggregated_delta_stream(served: Served) -> None:
    served.cache.set(snapshot_of(build(DESIRED)))
    stream = ads_pb2_grpc.AggregatedDiscoveryServiceStub(served.channel).DeltaAggregatedResources()
    await stream.write(delta(CLUSTER))
    first = await stream.read()
    assert [r.name for r in first.resources] == ["chat", "images", "tidegate_ext_proc"]
    served.cache.set(snapshot_of(build(with_endpoints(endpoint(1)))))
    changed, removed = await stream.read(), None
    removed = [*changed.removed_resources]
    assert ([r.name for r in changed.resources], removed) == (["chat"], ["images"])


async def test_a_message_that_is_none_ends_the_stream(served: Served) -> None:
    stream = served.channel.stream_stream(f"/{AGGREGATED}/DeltaAggregatedResources")()
    await stream.write(b"\xff\xff\xff")
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await stream.read()
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT


async def test_a_node_s_group_gets_its_own_snapshot(served: Served) -> None:
    served.cache.set(snapshot_of(build(DESIRED)))
    served.cache.set(snapshot_of(build(with_endpoints(endpoint(1)))), "edge")
    sizes = []
    for cluster in ("edge", "core"):
        stream = served.open()
        await stream.write(discovery_pb2.DiscoveryRequest(type_url=CLUSTER, node={"id": cluster, "cluster": cluster}))
        sizes.append(len((await stream.read()).resources))
    assert sizes == [2, 3]
    assert [s.group for s in served.streams.status(0)] == ["edge", "core"]


async def test_fact_40_a_client_that_does_not_read_delays_no_other_and_costs_one_response_a_type(
    served: Served,
) -> None:
    """Each of its requests is still read, and of what it was not sent the newest alone is kept."""
    many = [endpoint(1, 1)]
    many = [type(many[0])(address="x" * 200 + f"{n}:1", ip=f"10.0.{n >> 8}.{n & 255}", port=1) for n in range(5000)]
    served.cache.set(snapshot_of(build(with_endpoints(*many))))
    narrow = [("grpc.http2.bdp_probe", 0), ("grpc.http2.lookahead_bytes", 1 << 16)]
    async with grpc.aio.insecure_channel(served.address, options=narrow) as own:
        deaf = ads_pb2_grpc.AggregatedDiscoveryServiceStub(own).StreamAggregatedResources()
        await deaf.write(request(ENDPOINT, "chat"))
        await until(lambda: served.counted("pushes", "eds") == 1, what="the first push")
        live = served.open()
        await live.write(request(ENDPOINT, "chat"))
        read = 0
        for weight in range(2, 22):
            served.cache.set(snapshot_of(build(with_endpoints(endpoint(1, weight), *many))))
            version = served.cache.snapshot.version(ENDPOINT)  # type: ignore[union-attr]
            arrived = ""
            while arrived != version:
                arrived, read = (await live.read()).version_info, read + 1
        for number in range(20):
            await deaf.write(request(ENDPOINT, "chat", f"more{number}"))
        # A few fit into windows and buffers, whatever was pushed meanwhile.
        assert (served.counted("pushes", "eds") or 0) - read < 5


async def test_health_answers_for_the_server_and_for_each_service(served: Served) -> None:
    check = served.channel.unary_unary(f"/{HEALTH}/Check")
    assert [await check(check_request(service)) for service in ("", *SERVICES)] == [SERVING] * 6
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await check(check_request("else"))
    assert caught.value.code() is grpc.StatusCode.NOT_FOUND


async def test_reflection_lists_the_services_and_knows_their_messages(served: Served) -> None:
    stub = reflection_pb2_grpc.ServerReflectionStub(served.channel)
    ask = reflection_pb2.ServerReflectionRequest
    requests = [ask(list_services=""), ask(file_containing_symbol=AGGREGATED)]
    listed, file = [answer async for answer in stub.ServerReflectionInfo(iter(requests))]
    assert {*SERVICES, HEALTH} <= {s.name for s in listed.list_services_response.service}
    assert file.file_descriptor_response.file_descriptor_proto


async def test_a_unary_fetch_is_not_offered(served: Served) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await cds_pb2_grpc.ClusterDiscoveryServiceStub(served.channel).FetchClusters(request(CLUSTER))
    assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED
