"""A model of Envoy as far as its xDS client goes: warming, verdicts, what it repeats and what it keeps on reconnects.

Messages lie in two queues that the test empties in any order; a lost connection loses both.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any, Final

from envoy.config.cluster.v3 import cluster_pb2
from envoy.config.endpoint.v3 import endpoint_pb2
from envoy.config.listener.v3 import listener_pb2
from envoy.config.route.v3 import route_pb2
from envoy.service.discovery.v3 import discovery_pb2

from xds_server.snapshot import Snapshot, snapshot_of
from xds_server.subscription.protocols import SOTW, Protocol
from xds_server.subscription.stream import Stream
from xds_server.subscription.verdicts import Response
from xds_server.type_urls import CLUSTER, ENDPOINT, LISTENER, ROUTE

KINDS: Final = {
    CLUSTER: cluster_pb2.Cluster,
    ENDPOINT: endpoint_pb2.ClusterLoadAssignment,
    LISTENER: listener_pb2.Listener,
    ROUTE: route_pb2.RouteConfiguration,
}
World = dict[str, tuple[int, int]]
"""Cluster name → its revision, and its assignment's."""


def snapshot(world: World) -> Snapshot:
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
            LISTENER: {"l": listener_pb2.Listener(name="l", stat_prefix=str(sorted(world.items())))},
            ROUTE: {"r": route_pb2.RouteConfiguration(name="r", internal_only_headers=sorted(world))},
        }
    )


@dataclass
class Envoy:
    """Accepts clusters once they are warm, asks for endpoints when clusters come, as the real one does."""

    protocol: Protocol
    world: World
    streams: int = 0
    refuses: bool = False
    refused: set[str] = field(default_factory=set)
    safe: bool = True
    to_server: deque[Any] = field(default_factory=deque)
    to_client: deque[Response] = field(default_factory=deque)
    nonces: dict[str, str] = field(default_factory=dict)
    held: dict[str, dict[str, Any]] = field(default_factory=lambda: {url: {} for url in KINDS})
    versions: dict[str, dict[str, str]] = field(default_factory=lambda: {url: {} for url in KINDS})
    watched: set[str] = field(default_factory=set)
    warm: set[str] = field(default_factory=set)
    active: set[str] = field(default_factory=set)
    paused: bool = False
    unanswered: list[str] = field(default_factory=list)
    stream: Stream = field(init=False)
    snapshot: Snapshot = field(init=False)

    def __post_init__(self) -> None:
        self.publish(self.world)
        self.connect()

    def connect(self) -> None:
        """A new stream; while clusters warm no request for clusters goes out."""
        self.streams += 1
        self.stream = Stream(f"s{self.streams}", self.protocol)
        self.to_server.clear()
        self.to_client.clear()
        self.nonces.clear()
        self.unanswered.clear()
        # A state-of-the-world server cannot know which clusters the routes of a client that came back still name.
        self.safe = self.streams == 1 or self.protocol is not SOTW
        self.paused = not self.warm >= self.held[CLUSTER].keys()
        if not self.paused:
            self.subscribe(CLUSTER, [])
        if self.watched:
            self.subscribe(ENDPOINT, sorted(self.watched))
        self.subscribe(LISTENER, [])
        self.subscribe(ROUTE, ["r"])

    def publish(self, world: World) -> None:
        self.world, self.snapshot = world, snapshot(world)

    def step(self, *, server: bool) -> bool:
        """Deliver one message; False when there is none that way."""
        if server and self.to_server:
            self.stream.receive(self.to_server.popleft(), 0)
            return True
        if server and (response := self.stream.next_response(self.snapshot, 0)):
            self.to_client.append(response)
            return True
        if not server and self.to_client:
            self.take(self.to_client.popleft())
            return True
        return False

    def subscribe(self, type_url: str, names: list[str]) -> None:
        """The first request of a type on this stream."""
        if self.protocol is SOTW:
            self.request(type_url, names)
        else:
            versions = self.versions[type_url]
            self.request(type_url, resource_names_subscribe=names, initial_resource_versions=versions)

    def request(self, type_url: str, names: list[str] | None = None, **more: Any) -> None:
        kind = discovery_pb2.DiscoveryRequest if self.protocol is SOTW else discovery_pb2.DeltaDiscoveryRequest
        if self.protocol is SOTW:
            more = {"resource_names": names or [], "response_nonce": self.nonces.get(type_url, "")} | more
        self.to_server.append(kind(type_url=type_url, **more))

    def answer(self, type_url: str, nonce: str, **more: Any) -> None:
        names = {ROUTE: ["r"], ENDPOINT: sorted(self.watched)}.get(type_url, [])
        self.request(type_url, names, response_nonce=nonce, **more)

    def take(self, response: Response) -> None:
        type_url = response.type_url
        self.nonces[type_url] = response.nonce
        if self.refuses:
            self.refuses = False
            if type_url == ENDPOINT:
                self.refused |= {r.name for r in response.resources}
            self.drop(type_url, response.removed_resources)
            self.answer(type_url, response.nonce, error_detail={"message": "no"})
        else:
            self.apply(response)
        self.active |= self.warm & self.held[CLUSTER].keys()
        if self.safe:
            self.never_routes_into_nothing()
        self.accept_clusters_once_warm()

    def apply(self, response: Response) -> None:
        type_url, messages = response.type_url, {}
        for resource in response.resources:
            messages[resource.name] = KINDS[type_url]()
            assert resource.body.Unpack(messages[resource.name])
        before = dict(self.held[type_url])
        gone = set(response.removed_resources)
        if self.protocol is SOTW and type_url in {CLUSTER, LISTENER}:
            gone = before.keys() - messages
        self.drop(type_url, gone)
        self.held[type_url].update(messages)
        self.versions[type_url].update({r.name: r.version for r in response.resources})
        if type_url == CLUSTER:
            self.build({name for name, c in messages.items() if before.get(name) != c}, response.nonce)
        else:
            if type_url == ENDPOINT:
                self.warm |= messages.keys() | (gone & self.watched)
            self.answer(type_url, response.nonce)

    def drop(self, type_url: str, names: Any) -> None:
        if type_url == ENDPOINT:
            for name in names:  # a removed assignment leaves its hosts, and ends warming
                self.versions[ENDPOINT].pop(name, None)
            return
        for name in names:
            self.held[type_url].pop(name, None)
            self.versions[type_url].pop(name, None)
        if type_url == CLUSTER:
            self.warm -= set(names)
            self.active -= set(names)

    def build(self, changed: set[str], nonce: str) -> None:
        """Clusters that changed warm until their endpoints come."""
        self.warm -= changed
        self.unanswered.append(nonce)
        added, gone = self.held[CLUSTER].keys() - self.watched, self.watched - self.held[CLUSTER].keys()
        self.watched = set(self.held[CLUSTER])
        for name in gone:
            self.versions[ENDPOINT].pop(name, None)
            self.held[ENDPOINT].pop(name, None)
        if self.protocol is SOTW:
            if changed or gone:
                self.request(ENDPOINT, sorted(self.watched))
        elif added or gone:
            more = {} if self.nonces.get(ENDPOINT) else {"initial_resource_versions": self.versions[ENDPOINT]}
            self.request(
                ENDPOINT, resource_names_subscribe=sorted(added), resource_names_unsubscribe=sorted(gone), **more
            )

    def accept_clusters_once_warm(self) -> None:
        if self.warm >= self.held[CLUSTER].keys():
            for nonce in self.unanswered:
                self.answer(CLUSTER, nonce)
            self.unanswered.clear()
            if self.paused:
                self.paused = False
                self.subscribe(CLUSTER, [])

    def never_routes_into_nothing(self) -> None:
        """A cluster is there once it was warm, and stays while a changed one warms in its place."""
        for table in self.held[ROUTE].values():
            assert set(table.internal_only_headers) <= self.active

    def settle(self) -> None:
        """Deliver everything, until nobody has anything to say.

        Warming ends by time, `initial_fetch_timeout`, for what is not served at all or was refused.
        """
        for _ in range(2000):
            if self.step(server=True) | self.step(server=False):
                continue
            late = (self.held[CLUSTER].keys() - self.world.keys()) | self.refused
            if self.warm >= late and not self.paused:
                return
            self.warm |= late
            self.refused.clear()
            self.accept_clusters_once_warm()
        raise AssertionError("the conversation does not end")
