"""Clients that speak to a stream's state machine as Envoy does, message by message, and the snapshots they are served."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from envoy.config.cluster.v3 import cluster_pb2
from envoy.config.endpoint.v3 import endpoint_pb2
from envoy.config.listener.v3 import listener_pb2
from envoy.config.route.v3 import route_pb2
from envoy.service.discovery.v3 import discovery_pb2

from xds_server.snapshot import Snapshot, snapshot_of
from xds_server.subscription.protocols import DELTA, SOTW, Protocol
from xds_server.subscription.stream import Stream
from xds_server.subscription.verdicts import Response
from xds_server.type_urls import CLUSTER, ENDPOINT, LISTENER, ROUTE, SHORT_NAMES


def serving(
    clusters: Mapping[str, int],
    weights: Mapping[str, int] | None = None,
    route_to: str = "a",
    listener: int = 1,
) -> Snapshot:
    """Clusters by name and revision, an assignment for each, one listener and one route table."""
    weights = dict.fromkeys(clusters, 1) | dict(weights or {})
    return snapshot_of(
        {
            CLUSTER: {n: cluster_pb2.Cluster(name=n, alt_stat_name=str(r)) for n, r in clusters.items()},
            ENDPOINT: {n: _assignment(n, w) for n, w in weights.items()},
            LISTENER: {"l": listener_pb2.Listener(name="l", stat_prefix=str(listener))},
            ROUTE: {"r": route_pb2.RouteConfiguration(name="r", internal_only_headers=[route_to])},
        }
    )


def _assignment(name: str, weight: int) -> Any:
    assignment = endpoint_pb2.ClusterLoadAssignment(cluster_name=name)
    assignment.endpoints.add().lb_endpoints.add().load_balancing_weight.value = weight
    return assignment


class Machine:
    """A stream and the newest snapshot, with every response taken as soon as it is due."""

    def __init__(self, protocol: Protocol, stream_id: str, only: str | None = None) -> None:
        self.stream = Stream(stream_id, protocol, only=only)
        self.snapshot: Snapshot | None = None
        self.now_ms = 0

    def publish(self, snapshot: Snapshot) -> list[Response]:
        self.snapshot = snapshot
        return self.due()

    def receive(self, request: Any) -> list[Response]:
        self.stream.receive(request, self.now_ms)
        return self.due()

    def due(self) -> list[Response]:
        found: list[Response] = []
        while self.snapshot and (response := self.stream.next_response(self.snapshot, self.now_ms)):
            found.append(response)
        return found


class Client(Machine):
    """Speaks state of the world: answers each response with its nonce, names unchanged."""

    def __init__(self, snapshot: Snapshot | None = None, stream_id: str = "s1", only: str | None = None) -> None:
        super().__init__(SOTW, stream_id, only)
        self.names: dict[str, list[str]] = {}
        self.last: dict[str, Response] = {}
        if snapshot is not None:
            self.publish(snapshot)

    def publish(self, snapshot: Snapshot) -> list[Response]:
        return self._keep(super().publish(snapshot))

    def ask(self, type_url: str, names: list[str] | None = None, **more: Any) -> list[Response]:
        """A request with the last nonce and version of this type, for these names, or for those as before."""
        self.names[type_url] = self.names.get(type_url, []) if names is None else names
        last = self.last.get(type_url)
        fields = {
            "type_url": type_url,
            "resource_names": self.names[type_url],
            "response_nonce": last.nonce if last else "",
            "version_info": last.version_info if last else "",
        } | more
        return self._keep(self.receive(discovery_pb2.DiscoveryRequest(**fields)))

    def ack(self, response: Response) -> list[Response]:
        return self.ask(response.type_url, response_nonce=response.nonce)

    def nack(self, response: Response, error: str = "bad") -> list[Response]:
        return self.ask(response.type_url, response_nonce=response.nonce, error_detail={"code": 3, "message": error})

    def ack_all(self, responses: list[Response]) -> list[Response]:
        """Accept these and everything that follows from it; all that followed."""
        followed = []
        while responses:
            responses = [more for response in responses for more in self.ack(response)]
            followed += responses
        return followed

    def start(self) -> None:
        """What Envoy asks at its start, all accepted."""
        self.ack_all(self.ask(CLUSTER, []))
        self.ack_all(self.ask(ENDPOINT, resource_names(self.last[CLUSTER])))
        self.ack_all(self.ask(LISTENER, []))
        self.ack_all(self.ask(ROUTE, ["r"]))

    def _keep(self, responses: list[Response]) -> list[Response]:
        self.last.update({response.type_url: response for response in responses})
        return responses


class DeltaClient(Machine):
    """Speaks delta. `held` is what it would list as initial_resource_versions on its next stream."""

    def __init__(self, snapshot: Snapshot | None = None, stream_id: str = "d1", only: str | None = None) -> None:
        super().__init__(DELTA, stream_id, only)
        self.held: dict[str, dict[str, str]] = {}
        if snapshot is not None:
            self.publish(snapshot)

    def ask(
        self,
        type_url: str,
        subscribe: list[str] | None = None,
        unsubscribe: list[str] | None = None,
        held: Mapping[str, str] | None = None,
        **more: Any,
    ) -> list[Response]:
        """A spontaneous request, or with `response_nonce` an answer."""
        return self.receive(
            discovery_pb2.DeltaDiscoveryRequest(
                type_url=type_url,
                resource_names_subscribe=subscribe or [],
                resource_names_unsubscribe=unsubscribe or [],
                initial_resource_versions=dict(held or {}),
                **more,
            )
        )

    def ack(self, response: Response, **more: Any) -> list[Response]:
        held = self.held.setdefault(response.type_url, {})
        held.update({r.name: r.version for r in response.resources})
        for name in response.removed_resources:
            held.pop(name, None)
        return self.ask(response.type_url, response_nonce=response.nonce, **more)

    def nack(self, response: Response, error: str = "bad") -> list[Response]:
        detail = {"code": 3, "message": error}
        return self.ask(response.type_url, response_nonce=response.nonce, error_detail=detail)

    def ack_all(self, responses: list[Response]) -> list[Response]:
        followed = []
        while responses:
            responses = [more for response in responses for more in self.ack(response)]
            followed += responses
        return followed

    def start(self) -> None:
        """What Envoy asks at its start, all accepted."""
        [clusters] = self.ask(CLUSTER)
        self.ack(clusters)
        self.ack_all(self.ask(ENDPOINT, resource_names(clusters)))
        self.ack_all(self.ask(LISTENER))
        self.ack_all(self.ask(ROUTE, ["r"]))

    def reconnected(self, snapshot: Snapshot, stream_id: str = "d2") -> DeltaClient:
        """The same client on a stream of a server that serves `snapshot`."""
        again = DeltaClient(snapshot, stream_id)
        again.held = {type_url: dict(held) for type_url, held in self.held.items()}
        return again


def resource_names(response: Response) -> list[str]:
    return [resource.name for resource in response.resources]


def types(responses: list[Response]) -> list[str]:
    return [SHORT_NAMES[response.type_url] for response in responses]
