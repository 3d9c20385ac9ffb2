"""Bytes put together by hand are what protobuf writes and reads."""

from __future__ import annotations

from envoy.config.cluster.v3 import cluster_pb2
from envoy.service.discovery.v3 import discovery_pb2
from google.protobuf import any_pb2
from hypothesis import given
from hypothesis import strategies as st

from xds_server import wire
from xds_server.snapshot import resource
from xds_server.subscription.protocols import DELTA, SOTW
from xds_server.subscription.verdicts import Response
from xds_server.type_urls import CLUSTER

names = st.lists(st.text(max_size=300), max_size=3, unique=True)


def response(named: list[str], removed: list[str], text: str) -> Response:
    resources = tuple(resource(CLUSTER, n, cluster_pb2.Cluster(name=n, alt_stat_name=text)) for n in named)
    return Response(CLUSTER, text, text, resources, tuple(removed))


@given(named=names, text=st.text(max_size=300))
def test_a_state_of_the_world_response_is_what_protobuf_writes(named: list[str], text: str) -> None:
    ours = response(named, [], text)
    message = discovery_pb2.DiscoveryResponse(version_info=text, type_url=CLUSTER, nonce=text)
    for one in ours.resources:
        message.resources.append(one.body)
    assert SOTW.encode(ours) == message.SerializeToString()


@given(named=names, removed=names, text=st.text(max_size=300))
def test_a_delta_response_is_read_as_it_was_meant(named: list[str], removed: list[str], text: str) -> None:
    ours = response(named, removed, text)
    message = discovery_pb2.DeltaDiscoveryResponse.FromString(DELTA.encode(ours))
    assert (message.system_version_info, message.nonce, message.type_url) == (text, text, CLUSTER)
    assert list(message.removed_resources) == removed
    assert [(r.name, r.version, r.resource) for r in message.resources] == [
        (r.name, r.version, r.body) for r in ours.resources
    ]


@given(value=st.binary(max_size=70_000))
def test_an_any_is_what_protobuf_writes(value: bytes) -> None:
    assert wire.any_bytes("type", value) == any_pb2.Any(type_url="type", value=value).SerializeToString()
