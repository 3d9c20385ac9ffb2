"""Weights that move while everything else stays: the change that comes several times a second."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
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
    """When a change is worth a push: at most 5 a second and cluster, a small one after half a second without any.

    A change of anything but weights, and an endpoint that starts or stops serving, never waits. An operator's change
    is never small.
    """

    _pushed_at_ms: dict[str, int] = field(default_factory=dict)

    def due(
        self, served: Desired | None, desired: Desired, now_ms: int, *, ordered: bool = False
    ) -> tuple[Desired, int | None]:
        """What of `desired` is due after `served`, and how many ms the rest is held back; None where there is none.

        `took` was told of everything served before. What an operator `ordered` is worth a push however small.
        """
        if served is None or not differs_in_weights_alone(served, desired):
            return desired, None
        pairs = list(zip(served.clusters, desired.clusters, strict=True))
        held_ms = [self._held_ms(before, after, now_ms, ordered=ordered) for before, after in pairs]
        clusters = tuple(before if held else after for (before, after), held in zip(pairs, held_ms, strict=True))
        return replace(desired, clusters=clusters), min(filter(None, held_ms), default=None)

    def took(self, before: Desired | None, served: Desired, now_ms: int) -> None:
        """Note that `served` is served after `before`."""
        same = set() if before is None else {cluster.name for cluster in _unchanged(before, served)}
        self._pushed_at_ms.update({c.name: now_ms for c in served.clusters if c.name not in same})

    def _held_ms(self, before: DesiredCluster, after: DesiredCluster, now_ms: int, *, ordered: bool) -> int:
        steps = _steps(before, after)
        if not steps or any(was.serves != becomes.serves for was, becomes in steps):
            return 0
        big = ordered or any(_is_big(was, becomes) for was, becomes in steps)
        age_ms = now_ms - self._pushed_at_ms.get(after.name, now_ms - SETTLE_MS)
        return 0 if age_ms < 0 else max(0, (LEAST_INTERVAL_MS if big else SETTLE_MS) - age_ms)


def _unchanged(before: Desired, after: Desired) -> list[DesiredCluster]:
    known = {cluster.name: cluster for cluster in before.clusters}
    return [cluster for cluster in after.clusters if known.get(cluster.name) == cluster]


def _steps(before: DesiredCluster, after: DesiredCluster) -> list[tuple[DesiredEndpoint, DesiredEndpoint]]:
    if before == after:
        return []
    return [(a, b) for a, b in zip(before.endpoints, after.endpoints, strict=True) if a != b]


def _is_big(before: DesiredEndpoint, after: DesiredEndpoint) -> bool:
    if before.weight is None or after.weight is None:
        return True
    return abs(after.weight - before.weight) > LEAST_CHANGE * before.weight
