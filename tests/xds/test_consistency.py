"""The check before publishing names every fault."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.xds.worlds import DESIRED
from xds_server.consistency import InconsistentResources, check
from xds_server.resources import build
from xds_server.type_urls import CLUSTER, ENDPOINT, LISTENER, ROUTE


def first_endpoint(messages: Any) -> Any:
    return messages[ENDPOINT]["chat"].endpoints[0].lb_endpoints[0]


def weight_zero(messages: Any) -> None:
    first_endpoint(messages).load_balancing_weight.value = 0


def no_weight(messages: Any) -> None:
    first_endpoint(messages).ClearField("load_balancing_weight")


def host_name(messages: Any) -> None:
    first_endpoint(messages).endpoint.address.socket_address.address = "gpu-1"


def port_zero(messages: Any) -> None:
    first_endpoint(messages).endpoint.address.socket_address.port_value = 0


def endpoint_twice(messages: Any) -> None:
    messages[ENDPOINT]["chat"].endpoints[0].lb_endpoints.append(first_endpoint(messages))


def cluster_of_a_route_gone(messages: Any) -> None:
    del messages[CLUSTER]["chat"], messages[ENDPOINT]["chat"]


def assignment_gone(messages: Any) -> None:
    del messages[ENDPOINT]["chat"]


def cluster_of_an_assignment_gone(messages: Any) -> None:
    messages[ENDPOINT]["other"] = messages[ENDPOINT]["chat"].__class__(cluster_name="other")


def name_differs(messages: Any) -> None:
    messages[CLUSTER]["chat"].name = "chat2"


def routes_gone(messages: Any) -> None:
    del messages[ROUTE]["gateway"]


def ext_proc_gone(messages: Any) -> None:
    del messages[CLUSTER]["tidegate_ext_proc"]


def listener_by_name(messages: Any) -> None:
    messages[LISTENER]["gateway"].address.socket_address.address = "localhost"


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (weight_zero, "weight below 1"),
        (no_weight, "weight below 1"),
        (host_name, "gpu-1:8000 is not an IP"),
        (port_zero, "no valid port"),
        (endpoint_twice, "10.0.0.1:8000 is there twice"),
        (cluster_of_a_route_gone, "route chat goes to chat"),
        (assignment_gone, "cluster chat has no endpoint assignment"),
        (cluster_of_an_assignment_gone, "assigned to other"),
        (name_differs, "calls itself 'chat2'"),
        (routes_gone, "routes gateway, which are not there"),
        (ext_proc_gone, "ext_proc at tidegate_ext_proc"),
        (listener_by_name, "cannot listen on localhost"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_what_envoy_would_refuse_or_fail_on_is_found(damage: Callable[[Any], None], said: str) -> None:
    messages = {type_url: dict(resources) for type_url, resources in build(DESIRED).items()}
    damage(messages)
    with pytest.raises(InconsistentResources, match=said):
        check(messages)


def test_every_fault_is_named_at_once() -> None:
    messages = build(DESIRED)
    weight_zero(messages)
    listener_by_name(messages)
    with pytest.raises(InconsistentResources, match=r"weight below 1.*; .*localhost"):
        check(messages)
