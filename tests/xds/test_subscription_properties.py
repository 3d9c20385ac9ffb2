"""One type of one stream, any sequence of names, pushes, verdicts and reconnects: in the end the client holds it all."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any

import pytest
from envoy.config.cluster.v3 import cluster_pb2
from envoy.config.endpoint.v3 import endpoint_pb2
from envoy.service.discovery.v3 import discovery_pb2
from hypothesis import given, settings
from hypothesis import strategies as st

from xds_server.snapshot import Snapshot, snapshot_of
from xds_server.subscription.protocols import DELTA, SOTW, Protocol
from xds_server.subscription.stream import Stream
from xds_server.subscription.verdicts import MOST_PENDING, WILDCARD, Response
from xds_server.type_urls import CLUSTER, ENDPOINT

NAMES = ("a", "b", "c")
FRESH = 99
World = dict[str, int]
worlds = st.dictionaries(st.sampled_from(NAMES), st.integers(1, 3))
interests = st.sets(st.sampled_from([*NAMES, WILDCARD]))
steps = st.sampled_from(["server", "client", "settle", "settle", "reconnect", "refuse"])


def snapshot(type_url: str, world: World) -> Snapshot:
    if type_url == CLUSTER:
        return snapshot_of({CLUSTER: {n: cluster_pb2.Cluster(name=n, alt_stat_name=str(r)) for n, r in world.items()}})
    assignments = {n: endpoint_pb2.ClusterLoadAssignment(cluster_name=n) for n in world}
    for name, revision in world.items():
        assignments[name].endpoints.add().priority = revision
    return snapshot_of({ENDPOINT: assignments})


@dataclass
class Client:
    """Wants names of one type, and changes its mind. `held` is what it has, by name and version."""

    protocol: Protocol
    type_url: str
    wants: set[str]
    world: Snapshot
    streams: int = 0
    nonce: str = ""
    refuses: bool = False
    now_ms: int = 0
    held: dict[str, str] = field(default_factory=dict)
    to_server: deque[Any] = field(default_factory=deque)
    to_client: deque[Response] = field(default_factory=deque)
    stream: Stream = field(init=False)

    def __post_init__(self) -> None:
        self.connect()

    def connect(self) -> None:
        self.streams += 1
        self.stream, self.nonce = Stream(f"s{self.streams}", self.protocol), ""
        self.to_server.clear()
        self.to_client.clear()
        self.ask(set(), first=True)

    def want(self, names: set[str]) -> None:
        before, self.wants = self.wants, names
        self.ask(before)
        if WILDCARD not in names:
            self.held = {name: version for name, version in self.held.items() if name in names}

    def ask(self, before: set[str], *, first: bool = False, **verdict: Any) -> None:
        """Say what is wanted; in delta the difference to `before`."""
        if self.protocol is SOTW:
            request: Any = discovery_pb2.DiscoveryRequest(resource_names=sorted(self.wants), **verdict)
            request.response_nonce = request.response_nonce or self.nonce
        else:
            request = discovery_pb2.DeltaDiscoveryRequest(
                resource_names_subscribe=sorted(self.wants - before),
                resource_names_unsubscribe=sorted(before - self.wants),
                initial_resource_versions=self.held if first else {},
                **verdict,
            )
        request.type_url = self.type_url
        self.to_server.append(request)

    def act(self, action: Any) -> None:
        if isinstance(action, dict):
            self.world = snapshot(self.type_url, action)
        elif isinstance(action, set):
            self.want(action)
        elif action == "reconnect":
            self.connect()
        elif action == "refuse":
            self.refuses = True
        elif action == "settle":
            self.settle()
        else:
            self.step(server=action == "server")

    def step(self, *, server: bool) -> bool:
        if server and self.to_server:
            self.stream.receive(self.to_server.popleft(), self.now_ms)
            return True
        if server and (response := self.stream.next_response(self.world, self.now_ms)):
            self.to_client.append(response)
            return True
        if not server and self.to_client:
            self.take(self.to_client.popleft())
            return True
        return False

    def take(self, response: Response) -> None:
        assert len({r.name for r in response.resources}) == len(response.resources)
        self.nonce = response.nonce
        verdict: dict[str, Any] = {"response_nonce": response.nonce}
        if self.refuses:
            self.refuses = False
            verdict["error_detail"] = {"message": "no"}
            gone = set(response.removed_resources)
        else:
            gone = self.apply(response)
        for name in gone:
            self.held.pop(name, None)
        self.ask(self.wants, **verdict)

    def apply(self, response: Response) -> set[str]:
        taken = {r.name: r.version for r in response.resources if self.wants & {r.name, WILDCARD}}
        full = self.protocol is SOTW and self.type_url == CLUSTER
        gone = self.held.keys() - taken if full else set(response.removed_resources)
        self.held.update(taken)
        return gone

    def settle(self) -> None:
        for _ in range(500):
            if self.step(server=True) | self.step(server=False):
                continue
            if self.stream.wake_at_ms is None:
                return
            self.now_ms = self.stream.wake_at_ms
        raise AssertionError("the conversation does not end")


@pytest.mark.parametrize("type_url", [CLUSTER, ENDPOINT], ids=["cds", "eds"])
@pytest.mark.parametrize("protocol", [SOTW, DELTA], ids=["sotw", "delta"])
@settings(max_examples=150)
@given(
    first=st.tuples(worlds, interests.filter(bool)),
    actions=st.lists(st.one_of(steps, steps, worlds, interests), max_size=40),
    last=st.sets(st.sampled_from(NAMES)),
    refusing=st.booleans(),
)
def test_in_the_end_the_client_holds_what_it_wants_of_the_snapshot(
    protocol: Protocol, type_url: str, first: tuple[World, set[str]], actions: list[Any], last: set[str], refusing: bool
) -> None:
    world, wants = first
    client = Client(protocol, type_url, wants, snapshot(type_url, world))
    for action in actions:
        if action == set() and type_url == CLUSTER and client.streams > 1:
            continue  # with no names on a stream's first request a client would ask for all
        if action != "refuse" or refusing:
            client.act(action)
        assert all(len(s.pending) <= MOST_PENDING for s in client.stream._subscriptions.values())
    client.refuses = False
    client.settle()
    if not refusing:
        assert_holds_what_it_wants(client)
    # What was refused is not sent again until it is another: the last push is one that nobody refused.
    client.world = snapshot(type_url, dict.fromkeys(last, FRESH))
    client.settle()
    assert_holds_what_it_wants(client)


def assert_holds_what_it_wants(client: Client) -> None:
    """State of the world has no word for an assignment that went; delta has."""
    served = client.world.resources(client.type_url)
    wanted = {name: r.version for name, r in served.items() if client.wants & {name, WILDCARD}}
    held = {name: version for name, version in client.held.items() if name in wanted or client.protocol is DELTA}
    assert held == wanted
    assert client.stream.status(0).oldest_unacked_ms is None
