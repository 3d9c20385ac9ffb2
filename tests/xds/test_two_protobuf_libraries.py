"""What xds-protos writes, envoy-data-plane reads: same fields, same values, in every resource and inside each Any."""

from __future__ import annotations

import importlib
import json
import warnings
from typing import Any

import pytest
from google.protobuf import json_format

from tests.xds.worlds import DESIRED
from xds_server.resources import build
from xds_server.type_urls import CLUSTER, ENDPOINT, LISTENER, ROUTE, SHORT_NAMES

PACKAGES = {
    CLUSTER: ("config.cluster.v3", "Cluster"),
    ENDPOINT: ("config.endpoint.v3", "ClusterLoadAssignment"),
    LISTENER: ("config.listener.v3", "Listener"),
    ROUTE: ("config.route.v3", "RouteConfiguration"),
}
INSIDE_ANY = (
    "extensions.filters.http.buffer.v3",
    "extensions.filters.http.ext_proc.v3",
    "extensions.filters.http.fault.v3",
    "extensions.filters.http.json_to_metadata.v3",
    "extensions.filters.http.router.v3",
    "extensions.filters.network.http_connection_manager.v3",
    "extensions.http.early_header_mutation.header_mutation.v3",
    "extensions.load_balancing_policies.override_host.v3",
    "extensions.load_balancing_policies.round_robin.v3",
    "extensions.retry.host.previous_hosts.v3",
    "extensions.upstreams.http.v3",
)


def module(package: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecated fields of Envoy's own messages
        return importlib.import_module(f"envoy_data_plane.envoy.{package}")


@pytest.mark.parametrize("type_url", PACKAGES, ids=SHORT_NAMES.values())
def test_the_other_library_reads_what_we_write(type_url: str) -> None:
    for package in INSIDE_ANY:
        module(package)
    package, name = PACKAGES[type_url]
    reader = getattr(module(package), name)
    for message in build(DESIRED)[type_url].values():
        read = reader.parse(message.SerializeToString(deterministic=True))
        theirs = json.loads(json.dumps(read.to_dict()).replace("5Xx", "5xx"))  # protobuf spells it so
        assert theirs == json_format.MessageToDict(message)
