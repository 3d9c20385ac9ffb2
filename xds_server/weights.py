"""Weights that move while everything else stays: the change that comes several times a second."""

from __future__ import annotations

from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Any, Final

from envoy.config.core.v3 import health_check_pb2

from xds_server.desired import Desired, DesiredCluster, DesiredEndpoint
from xds_server.resources.endpoints import neutral_weight

LEAST_INTERVAL_MS: Final = 200
SETTLE_MS: Final = 500
LEAST_CHANGE: Final = 0.02
"""Part of a weight by which it must have moved to be worth a push of its own."""


def _all_but(kind: type, *left_out: str) -> Any:
    return attrgetter(*(f.name for f in fields(kind) if f.name not in left_out))


_place_of = _all_but(DesiredEndpoint, "weight", "takes_traffic")
_rest_of_cluster = _all_but(DesiredCluster, "endpoints")
_rest_of = _all_but(Desired, "clusters")


def differs_in_weights_alone(one: Desired, other: Desired) -> bool:
    """Whether the two differ in endpoints' weights and traffic, or not at all.

    A cluster that has an endpoint to serve in one and none in the other is another difference: routes may depend
    on it.
    """
    return (
        _rest_of(one) == _rest_of(other)
        and len(one.clusters) == len(other.clusters)
        and all(a == b or _same_places(a, b) for a, b in zip(one.clusters, other.clusters, strict=True))
    )


def _same_places(one: DesiredCluster, other: DesiredCluster) -> bool:
    return (
        _rest_of_cluster(one) == _rest_of_cluster(other)
        and [_place_of(e) for e in one.endpoints] == [_place_of(e) for e in other.endpoints]
        and any(e.serves for e in one.endpoints) == any(e.serves for e in other.endpoints)
    )


def reweigh(assignment: Any, cluster: DesiredCluster) -> None:
    """Give the endpoints of an assignment, which are those of `cluster`, their weights and health in place."""
    neutral = neutral_weight(cluster)
    desired = {(e.ip, e.port): e for e in cluster.endpoints}
    for locality in assignment.endpoints:
        for endpoint in locality.lb_endpoints:
            socket = endpoint.endpoint.address.socket_address
            one = desired[socket.address, socket.port_value]
            endpoint.load_balancing_weight.value = neutral if one.weight is None else max(1, one.weight)
            endpoint.health_status = health_check_pb2.HEALTHY if one.serves else health_check_pb2.DRAINING


@dataclass(slots=True)
class Pace:
    """When a change is worth a push: at most 5 a second, a small one after half a second without any.

    A change of anything but weights, and an endpoint that starts or stops serving, never waits. An operator's change
    is never small.
    """

    served_at_ms: int | None = None

    def held_ms(self, served: Desired | None, desired: Desired, now_ms: int, *, ordered: bool = False) -> int:
        """How long `desired`, which differs from `served`, is still held back; 0: it is due.

        `served` was served when `took` was last called. What an operator `ordered` is worth a push however small.
        """
        if served is None or self.served_at_ms is None or not differs_in_weights_alone(served, desired):
            return 0
        steps = [step for a, b in zip(served.clusters, desired.clusters, strict=True) for step in _steps(a, b)]
        if any(before.serves != after.serves for before, after in steps):
            return 0
        big = ordered or any(_is_big(before, after) for before, after in steps)
        age_ms = now_ms - self.served_at_ms
        return 0 if age_ms < 0 else max(0, (LEAST_INTERVAL_MS if big else SETTLE_MS) - age_ms)

    def took(self, now_ms: int) -> None:
        """Note that something was served."""
        self.served_at_ms = now_ms


def _steps(before: DesiredCluster, after: DesiredCluster) -> list[tuple[DesiredEndpoint, DesiredEndpoint]]:
    if before == after:
        return []
    return [(a, b) for a, b in zip(before.endpoints, after.endpoints, strict=True) if a != b]


def _is_big(before: DesiredEndpoint, after: DesiredEndpoint) -> bool:
    if before.weight is None or after.weight is None:
        return True
    return abs(after.weight - before.weight) > LEAST_CHANGE * before.weight
