"""What Envoy is told of the access log."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from envoy.extensions.access_loggers.grpc.v3 import als_pb2
from envoy.extensions.filters.network.http_connection_manager.v3 import http_connection_manager_pb2 as hcm
from envoy.extensions.transport_sockets.tls.v3 import tls_pb2

from tests.xds.worlds import DESIRED
from tidegate.domain.errors import ConfigError
from tidegate.settings.services import XdsSettings
from xds_server.app import _outcomes
from xds_server.consistency import InconsistentResources, check
from xds_server.desired import Desired, OutcomesServer, PickerTls
from xds_server.resources import build
from xds_server.resources.names import OUTCOMES_CLUSTER
from xds_server.type_urls import CLUSTER, LISTENER

TELLS = replace(DESIRED, outcomes=OutcomesServer("outcomes", 18002))


def logs_of(desired: Desired) -> list[Any]:
    manager = hcm.HttpConnectionManager()
    [chain] = build(desired)[LISTENER]["gateway"].filter_chains
    assert chain.filters[0].typed_config.Unpack(manager)
    return list(manager.access_log)


def test_without_a_server_envoy_writes_no_log() -> None:
    assert logs_of(DESIRED) == []
    assert OUTCOMES_CLUSTER not in build(DESIRED)[CLUSTER]


def test_a_log_is_written_at_a_requests_end_alone_and_is_bounded() -> None:
    check(build(TELLS))
    config = als_pb2.HttpGrpcAccessLogConfig()
    [log] = logs_of(TELLS)
    assert log.typed_config.Unpack(config)
    common = config.common_config
    assert common.grpc_service.envoy_grpc.cluster_name == OUTCOMES_CLUSTER
    assert 0 < common.buffer_size_bytes.value <= 1 << 20
    assert [(tag.tag, tag.value) for tag in common.custom_tags] == [("replica", "%UPSTREAM_HOST_NAME%")]
    manager = hcm.HttpConnectionManager()
    build(TELLS)[LISTENER]["gateway"].filter_chains[0].filters[0].typed_config.Unpack(manager)
    assert not manager.access_log_options.flush_access_log_on_new_request
    assert not manager.access_log_options.HasField("access_log_flush_interval")


def test_no_host_of_the_cluster_is_ever_set_aside() -> None:
    """A batch that finds no host is tried anew at every request."""
    cluster = build(TELLS)[CLUSTER][OUTCOMES_CLUSTER]
    assert not cluster.health_checks
    assert not cluster.HasField("outlier_detection")
    assert not cluster.HasField("transport_socket")


def test_by_tls_the_servers_name_is_verified_and_a_certificate_presented() -> None:
    tls = PickerTls(name="outcomes.internal", secrets="/etc/envoy", mutual=True)
    cluster = build(replace(DESIRED, outcomes=OutcomesServer("10.0.0.1", 1, tls)))[CLUSTER][OUTCOMES_CLUSTER]
    context = tls_pb2.UpstreamTlsContext()
    assert cluster.transport_socket.typed_config.Unpack(context)
    assert context.sni == "outcomes.internal"
    assert len(context.common_tls_context.tls_certificate_sds_secret_configs) == 1


def test_a_log_to_no_cluster_is_not_served() -> None:
    resources = {url: dict(messages) for url, messages in build(TELLS).items()}
    del resources[CLUSTER][OUTCOMES_CLUSTER]
    with pytest.raises(InconsistentResources, match="logs to tidegate_outcomes, which is no cluster"):
        check(resources)


def test_flags_that_do_not_fit_together_say_so() -> None:
    assert _outcomes(XdsSettings()) is None
    assert _outcomes(XdsSettings(outcomes="10.0.0.1:5")) == OutcomesServer("10.0.0.1", 5)
    with pytest.raises(ConfigError, match="--envoy-secrets"):
        _outcomes(XdsSettings(outcomes="10.0.0.1:5", outcomes_tls_name="x"))
