"""Whatever is pushed in whatever order of delivery: an Envoy ends with the snapshot, and never routes into nothing."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any

from envoy.config.cluster.v3 import cluster_pb2
from envoy.config.endpoint.v3 import endpoint_pb2
from envoy.config.listener.v3 import listener_pb2
from envoy.config.route.v3 import route_pb2
from envoy.service.discovery.v3 import discovery_pb2
from hypothesis import given, settings
from hypothesis import strategies as st

from xds_server.snapshot import Snapshot, snapshot_of
from xds_server.subscription import SotwStream
from xds_server.type_urls import CLUSTER, ENDPOINT, LISTENER, ROUTE

NAMES = ("a", "b", "c")
KINDS = {
    CLUSTER: cluster_pb2.Cluster,
    ENDPOINT: endpoint_pb2.ClusterLoadAssignment,
    LISTENER: listener_pb2.Listener,
    ROUTE: route_pb2.RouteConfiguration,
}

worlds = st.dictionaries(st.sampled_from(NAMES), st.tuples(st.integers(1, 3), st.integers(1, 3)))
"""Cluster name → its revision, and its assignment's."""


def snapshot(world: dict[str, tuple[int, int]]) -> Snapshot:
    """Every cluster has an assignment, and the routes name every cluster."""
    clusters = {n: cluster_pb2.Cluster(name=n, alt_stat_name=str(r)) for n, (r, _) in world.items()}
    assignments = {}
    for name, (_, weight) in world.items():
        assignments[name] = endpoint_pb2.ClusterLoadAssignment(cluster_name=name)
        assignments[name].endpoints.add().priority = weight
    return snapshot_of(
        {
            CLUSTER: clusters,
            ENDPOINT: assignments,
            LISTENER: {"l": listener_pb2.Listener(name="l")},
            ROUTE: {"r": route_pb2.RouteConfiguration(name="r", internal_only_headers=sorted(world))},
        }
    )


@dataclass
class Envoy:
    """Accepts clusters once they are warm, asks for endpoints when clusters change, as the real one does."""

    stream: SotwStream = field(default_factory=lambda: SotwStream("s"))
    to_server: deque[Any] = field(default_factory=deque)
    to_client: deque[Any] = field(default_factory=deque)
    nonces: dict[str, str] = field(default_factory=dict)
    held: dict[str, dict[str, Any]] = field(default_factory=lambda: {url: {} for url in KINDS})
    assigned: set[str] = field(default_factory=set)
    active: set[str] = field(default_factory=set)
    unanswered: list[str] = field(default_factory=list)

    def start(self) -> None:
        for type_url in (CLUSTER, LISTENER):
            self.request(type_url, [])
        self.request(ROUTE, ["r"])

    def publish(self, world: dict[str, tuple[int, int]]) -> None:
        self.to_client.extend(self.stream.publish(snapshot(world), 0))

    def request(self, type_url: str, names: list[str], nonce: str | None = None) -> None:
        nonce = self.nonces.get(type_url, "") if nonce is None else nonce
        self.to_server.append(
            discovery_pb2.DiscoveryRequest(type_url=type_url, resource_names=names, response_nonce=nonce)
        )

    def step(self, *, server: bool) -> bool:
        """Deliver one message; False when there is none that way."""
        if server and self.to_server:
            self.to_client.extend(self.stream.receive(self.to_server.popleft(), 0))
            return True
        if not server and self.to_client:
            self.take(self.to_client.popleft())
            return True
        return False

    def take(self, response: Any) -> None:
        resources = [KINDS[response.type_url]() for _ in response.resources]
        for message, body in zip(resources, response.resources, strict=True):
            assert body.Unpack(message)
        self.nonces[response.type_url] = response.nonce
        if response.type_url == CLUSTER:
            self.take_clusters({c.name: c for c in resources}, response.nonce)
        elif response.type_url == ENDPOINT:
            self.held[ENDPOINT].update({a.cluster_name: a for a in resources})
            self.assigned |= {a.cluster_name for a in resources}
            self.request(ENDPOINT, sorted(self.held[CLUSTER]))
        else:
            self.held[response.type_url] = {m.name: m for m in resources}
            self.request(response.type_url, ["r"] if response.type_url == ROUTE else [])
        self.active |= self.assigned
        self.never_routes_into_nothing()
        self.accept_clusters_once_warm()

    def take_clusters(self, clusters: dict[str, Any], nonce: str) -> None:
        changed = {name for name, c in clusters.items() if self.held[CLUSTER].get(name) != c}
        gone = self.held[CLUSTER].keys() - clusters
        self.held[CLUSTER] = clusters
        self.assigned -= changed | gone
        self.active -= gone
        self.unanswered.append(nonce)
        if changed or gone:
            self.request(ENDPOINT, sorted(clusters))

    def accept_clusters_once_warm(self) -> None:
        if self.assigned >= self.held[CLUSTER].keys():
            for nonce in self.unanswered:
                self.request(CLUSTER, [], nonce)
            self.unanswered.clear()

    def never_routes_into_nothing(self) -> None:
        """A cluster is there once it was warm, and stays while a changed one warms in its place."""
        for table in self.held[ROUTE].values():
            assert set(table.internal_only_headers) <= self.active


@settings(deadline=None, max_examples=150)
@given(
    first=worlds,
    actions=st.lists(st.one_of(st.sampled_from(["server", "client"]), worlds), max_size=40),
)
def test_after_quiet_the_client_holds_the_snapshot(first: dict[str, tuple[int, int]], actions: list[Any]) -> None:
    envoy, last = Envoy(), first
    envoy.start()
    envoy.publish(first)
    for action in actions:
        if isinstance(action, dict):
            envoy.publish(action)
            last = action
        else:
            envoy.step(server=action == "server")
    for _ in range(1000):
        if not (envoy.step(server=True) | envoy.step(server=False)):
            break
    else:
        raise AssertionError("the conversation does not end")
    served = snapshot(last)
    for type_url in (CLUSTER, LISTENER, ROUTE):
        assert envoy.held[type_url].keys() == served.resources(type_url).keys()
    for name in last:
        for type_url in (CLUSTER, ENDPOINT):
            held = envoy.held[type_url][name].SerializeToString(deterministic=True)
            assert held == served.resources(type_url)[name].body.value
    assert not envoy.unanswered
    assert envoy.stream.status(0).oldest_unacked_ms is None
