"""The bootstrap is a valid Bootstrap message, and the one of docker compose is ours."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from envoy.config.bootstrap.v3 import bootstrap_pb2
from envoy.config.core.v3 import config_source_pb2
from envoy.extensions.resource_monitors.downstream_connections.v3 import downstream_connections_pb2
from envoy.extensions.upstreams.http.v3 import http_protocol_options_pb2
from google.protobuf import json_format

from xds_server.bootstrap import bootstrap, bootstrap_yaml, compose_yaml, main

REGISTERED = (downstream_connections_pb2, http_protocol_options_pb2)


def test_fact_43_the_node_goes_with_the_first_request_alone() -> None:
    data = yaml.safe_load(bootstrap_yaml("127.0.0.1:18000", "127.0.0.1:9901", node_id="edge-1"))
    message = json_format.ParseDict(data, bootstrap_pb2.Bootstrap())
    ads = message.dynamic_resources.ads_config
    assert message.node.id == "edge-1"
    assert ads.set_node_on_first_message_only
    assert ads.api_type == config_source_pb2.ApiConfigSource.DELTA_GRPC
    assert [c.name for c in message.static_resources.clusters] == ["xds"]


def test_state_of_the_world_is_there_for_who_asks() -> None:
    ads = bootstrap("127.0.0.1:18000", "127.0.0.1:9901", protocol="sotw")["dynamic_resources"]["ads_config"]
    assert ads["api_type"] == "GRPC"


def test_several_servers_stand_in_one_cluster() -> None:
    [cluster] = bootstrap("10.0.0.1:18000,10.0.0.2:18000", "127.0.0.1:9901")["static_resources"]["clusters"]
    places = [
        e["endpoint"]["address"]["socket_address"] for e in cluster["load_assignment"]["endpoints"][0]["lb_endpoints"]
    ]
    assert [p["address"] for p in places] == ["10.0.0.1", "10.0.0.2"]


def test_a_group_is_said_in_the_metadata() -> None:
    node = bootstrap("xds:18000", "127.0.0.1:9901", group="edge")["node"]
    assert node["metadata"] == {"tidegate_group": "edge"}


def test_the_command_prints_what_it_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--xds", "10.0.0.1:1", "--protocol", "sotw", "--node-id", "edge-1"])
    data = yaml.safe_load(capsys.readouterr().out)
    assert (data["node"]["id"], data["dynamic_resources"]["ads_config"]["api_type"]) == ("edge-1", "GRPC")


@pytest.mark.parametrize(
    ("address", "kind"),
    [("127.0.0.1:18000", "STATIC"), ("127.0.0.1:1,xds:1", "STRICT_DNS"), ("xds:18000", "STRICT_DNS")],
)
def test_the_server_is_found_by_address_or_by_name(address: str, kind: str) -> None:
    [cluster] = bootstrap(address, "127.0.0.1:9901")["static_resources"]["clusters"]
    assert cluster["type"] == kind


def test_an_address_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="host:port"):
        bootstrap("xds", "127.0.0.1:9901")


def test_the_file_of_docker_compose_is_what_this_writes() -> None:
    path = Path(__file__).parents[2] / "envoy" / "bootstrap.yaml"
    assert path.read_text() == compose_yaml()
