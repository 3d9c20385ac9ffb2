"""The state-of-the-world stream, message by message."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from envoy.config.cluster.v3 import cluster_pb2
from envoy.config.endpoint.v3 import endpoint_pb2
from envoy.config.listener.v3 import listener_pb2
from envoy.config.route.v3 import route_pb2
from envoy.service.discovery.v3 import discovery_pb2

from tidegate.domain.errors import ProtocolViolation
from xds_server.snapshot import Snapshot, snapshot_of
from xds_server.subscription import MOST_PENDING, SotwStream
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


class Client:
    """Speaks as Envoy does: answers each response with its nonce, names unchanged."""

    def __init__(self, snapshot: Snapshot | None = None, stream_id: str = "s1") -> None:
        self.stream = SotwStream(stream_id)
        self.names: dict[str, list[str]] = {}
        self.last: dict[str, Any] = {}
        self.now_ms = 0
        if snapshot is not None:
            self.publish(snapshot)

    def publish(self, snapshot: Snapshot) -> list[Any]:
        return self._keep(self.stream.publish(snapshot, self.now_ms))

    def ask(self, type_url: str, names: list[str] | None = None, **more: Any) -> list[Any]:
        """A request with the last nonce and version of this type, for these names, or for those as before."""
        self.names[type_url] = self.names.get(type_url, []) if names is None else names
        last = self.last.get(type_url)
        fields = {
            "type_url": type_url,
            "resource_names": self.names[type_url],
            "response_nonce": last.nonce if last else "",
            "version_info": last.version_info if last else "",
        } | more
        return self._keep(self.stream.receive(discovery_pb2.DiscoveryRequest(**fields), self.now_ms))

    def ack(self, response: Any) -> list[Any]:
        return self.ask(response.type_url, response_nonce=response.nonce)

    def nack(self, response: Any, error: str = "bad") -> list[Any]:
        return self.ask(response.type_url, response_nonce=response.nonce, error_detail={"code": 3, "message": error})

    def ack_all(self, responses: list[Any]) -> list[Any]:
        """Accept these and everything that follows from it; all that followed."""
        followed = []
        while responses:
            responses = [more for response in responses for more in self.ack(response)]
            followed += responses
        return followed

    def start(self) -> None:
        """What Envoy asks at its start, all accepted."""
        self.ack_all(self.ask(CLUSTER, []))
        self.ack_all(self.ask(ENDPOINT, self._known_clusters()))
        self.ack_all(self.ask(LISTENER, []))
        self.ack_all(self.ask(ROUTE, ["r"]))

    def _known_clusters(self) -> list[str]:
        return resource_names(self.last[CLUSTER])

    def _keep(self, responses: list[Any]) -> list[Any]:
        self.last.update({response.type_url: response for response in responses})
        return responses


def resource_names(response: Any) -> list[str]:
    kinds = {
        CLUSTER: cluster_pb2.Cluster,
        ENDPOINT: endpoint_pb2.ClusterLoadAssignment,
        LISTENER: listener_pb2.Listener,
        ROUTE: route_pb2.RouteConfiguration,
    }
    names = []
    for body in response.resources:
        message = kinds[response.type_url]()
        assert body.Unpack(message)
        names.append(message.cluster_name if response.type_url == ENDPOINT else message.name)
    return names


def types(responses: list[Any]) -> list[str]:
    return [SHORT_NAMES[response.type_url] for response in responses]


@pytest.fixture
def started() -> Client:
    client = Client(serving({"a": 1, "b": 1}))
    client.start()
    return client


def test_the_node_of_the_first_message_is_kept() -> None:
    client = Client(serving({"a": 1}))
    client.ask(CLUSTER, [], node={"id": "envoy-1"})
    client.ask(ENDPOINT, ["a"])
    assert client.stream.status(0).node == "envoy-1"


def test_a_request_without_type_url_ends_the_stream() -> None:
    with pytest.raises(ProtocolViolation):
        SotwStream("s").receive(discovery_pb2.DiscoveryRequest(), 0)


def test_a_request_for_a_type_that_is_not_served_gets_no_answer() -> None:
    assert Client(serving({"a": 1})).ask("type.googleapis.com/envoy.service.runtime.v3.Runtime", ["x"]) == []


def test_every_nonce_is_used_once_and_never_by_another_stream() -> None:
    nonces = []
    for stream_id in ("s1", "s2"):
        client = Client(serving({"a": 1}), stream_id)
        nonces += [r.nonce for r in client.ask(CLUSTER, [])]
        nonces += [r.nonce for r in client.publish(serving({"a": 2}))]
    assert len(nonces) == 4 == len(set(nonces))


def test_a_request_with_a_stale_nonce_is_ignored(started: Client) -> None:
    stale = started.last[ENDPOINT].nonce
    started.publish(serving({"a": 1, "b": 1}, {"a": 7}))
    assert started.ask(ENDPOINT, [], response_nonce=stale) == []
    assert types(started.publish(serving({"a": 1, "b": 1}, {"a": 8}))) == ["eds"]


def test_a_nonce_of_an_earlier_stream_does_not_hide_the_first_request() -> None:
    client = Client(serving({"a": 1}))
    assert types(client.ask(CLUSTER, [], response_nonce="elsewhere.7", version_info="old")) == ["cds"]


def test_an_ack_triggers_no_response() -> None:
    client = Client(serving({"a": 1}))
    [response] = client.ask(CLUSTER, [])
    assert client.ack(response) == []


def test_error_detail_alone_makes_a_nack_even_with_the_version_it_refuses(started: Client) -> None:
    accepted = started.last[ENDPOINT].version_info
    [bad] = started.publish(serving({"a": 1, "b": 1}, {"a": 7}))
    started.nack(bad, "weight")
    status = started.stream.status(0)
    assert (status.acked["eds"], status.nacked["eds"], status.last_error) == (
        accepted,
        bad.version_info,
        "weight",
    )


def test_refused_content_is_not_sent_again(started: Client) -> None:
    [bad] = started.publish(serving({"a": 2, "b": 1}))[:1]
    assert CLUSTER not in {r.type_url for r in started.nack(bad)}
    assert CLUSTER not in {r.type_url for r in started.nack(bad)}
    assert "cds" not in types(started.publish(serving({"a": 2, "b": 1}, {"b": 9})))


def test_what_was_good_before_a_nack_is_sent_when_it_is_served_again(started: Client) -> None:
    [bad, *_] = started.publish(serving({"a": 2, "b": 1}))
    started.nack(bad)
    assert "cds" in types(started.publish(serving({"a": 1, "b": 1})))


def test_versions_are_apart_by_type(started: Client) -> None:
    before = started.last[CLUSTER].version_info
    [response] = started.publish(serving({"a": 1, "b": 1}, {"a": 7}))
    assert response.type_url == ENDPOINT
    assert started.stream.status(0).acked["cds"] == before


def test_cds_and_lds_hold_the_full_set(started: Client) -> None:
    assert resource_names(started.publish(serving({"a": 2, "b": 1}))[0]) == ["a", "b"]


def test_eds_holds_only_what_changed(started: Client) -> None:
    [response] = started.publish(serving({"a": 1, "b": 1}, {"b": 7}))
    assert (response.type_url, resource_names(response)) == (ENDPOINT, ["b"])


def test_an_identical_snapshot_pushes_nothing(started: Client) -> None:
    assert started.publish(serving({"a": 1, "b": 1})) == []


def test_an_empty_wildcard_is_answered_once_there_is_a_snapshot() -> None:
    client = Client()
    assert client.ask(CLUSTER, []) == []
    [response] = client.publish(serving({}))
    assert (response.type_url, list(response.resources)) == (CLUSTER, [])


def test_an_added_name_is_sent_at_the_same_version() -> None:
    client = Client(serving({"a": 1, "b": 1}))
    client.ack_all(client.ask(ENDPOINT, ["a"]))
    [response] = client.ask(ENDPOINT, ["a", "b"])
    assert resource_names(response) == ["b"]


def test_unsubscribing_and_subscribing_again_resends() -> None:
    client = Client(serving({"a": 1, "b": 1}))
    client.ack_all(client.ask(ENDPOINT, ["a", "b"]))
    assert client.ask(ENDPOINT, ["a"]) == []
    [response] = client.ask(ENDPOINT, ["a", "b"])
    assert resource_names(response) == ["b"]


@pytest.mark.parametrize("type_url", [CLUSTER, ENDPOINT])
def test_no_names_after_names_is_none(type_url: str) -> None:
    client = Client(serving({"a": 1}))
    client.ack_all(client.ask(type_url, ["a"]))
    assert client.ask(type_url, []) == []
    assert client.publish(serving({"a": 2}, {"a": 2})) == []


@pytest.mark.parametrize("type_url", [CLUSTER, LISTENER])
def test_no_names_from_the_start_is_the_wildcard_of_cds_and_lds(type_url: str) -> None:
    client = Client(serving({"a": 1, "b": 1}))
    [response] = client.ask(type_url, [])
    assert len(response.resources) == {CLUSTER: 2, LISTENER: 1}[type_url]


@pytest.mark.parametrize("type_url", [ENDPOINT, ROUTE])
def test_no_names_from_the_start_is_none_for_eds_and_rds(type_url: str) -> None:
    assert Client(serving({"a": 1})).ask(type_url, []) == []


def test_the_explicit_wildcard_is_entered_joined_and_left() -> None:
    client = Client(serving({"a": 1, "b": 1}))
    [everything] = client.ask(CLUSTER, ["*"])
    assert resource_names(everything) == ["a", "b"]
    client.ack(everything)
    client.ack_all(client.ask(CLUSTER, ["*", "a"]))
    assert client.ask(CLUSTER, ["a"]) == []
    assert client.publish(serving({"a": 1, "b": 2})) == []
    assert resource_names(client.publish(serving({"a": 2, "b": 2}))[0]) == ["a"]


def test_leaving_the_explicit_wildcard_for_no_names_is_none() -> None:
    client = Client(serving({"a": 1}))
    client.ack_all(client.ask(CLUSTER, ["*"]))
    client.ask(CLUSTER, [])
    assert client.publish(serving({"a": 2})) == []


def test_a_missing_resource_is_sent_when_it_appears_and_holds_back_none() -> None:
    client = Client(serving({"a": 1}))
    [response] = client.ask(ENDPOINT, ["a", "late"])
    assert resource_names(response) == ["a"]
    client.ack(response)
    [late] = client.publish(serving({"a": 1, "late": 1}))
    assert resource_names(late) == ["late"]


def test_two_fast_pushes_are_each_acknowledged(started: Client) -> None:
    [first] = started.publish(serving({"a": 1, "b": 1}, {"a": 7}))
    [second] = started.publish(serving({"a": 1, "b": 1}, {"a": 8}))
    assert started.ack(first) == []
    assert started.stream.status(0).acked["eds"] == first.version_info
    assert started.ack(second) == []
    assert started.stream.status(0).acked["eds"] == second.version_info


def test_pushes_are_ordered_and_listeners_and_routes_wait_for_clusters(started: Client) -> None:
    first = started.publish(serving({"a": 2, "b": 2}, {"a": 7}, route_to="b", listener=2))
    assert types(first) == ["cds", "eds"]
    assert types(started.ack(first[1])) == []
    assert types(started.ack(first[0])) == ["lds", "rds"]


def test_a_refused_cluster_does_not_hold_back_routes_for_ever(started: Client) -> None:
    [clusters, *_] = started.publish(serving({"a": 2, "b": 1}, route_to="b"))
    assert types(started.nack(clusters)) == ["rds"]


def test_a_cluster_goes_only_after_the_routes_that_named_it(started: Client) -> None:
    pushed = started.publish(serving({"a": 1}, route_to="a only"))
    assert types(pushed) == ["rds"]
    [removal] = started.ack(pushed[0])
    assert resource_names(removal) == ["a"]


def test_a_cluster_stays_when_the_routes_without_it_are_refused(started: Client) -> None:
    [routes] = started.publish(serving({"a": 1}, route_to="a only"))
    assert started.nack(routes) == []
    assert "b" in resource_names(started.publish(serving({"a": 2}, route_to="a only"))[0])


def test_the_version_of_clusters_tells_a_first_pass_from_the_last(started: Client) -> None:
    snapshot = serving({"a": 2}, route_to="a only")
    [first, *_] = started.publish(snapshot)
    assert resource_names(first) == ["a", "b"]
    assert first.version_info != snapshot.version(CLUSTER)
    last = started.ack_all([first])[-1]
    assert (resource_names(last), last.version_info) == (["a"], snapshot.version(CLUSTER))


def test_a_repeated_request_is_answered(started: Client) -> None:
    """After a cluster change Envoy repeats its EDS request; it looks like a second ACK, and Envoy waits."""
    [response] = started.ask(ENDPOINT)
    assert resource_names(response) == ["a", "b"]
    assert started.ack(response) == []


def test_the_assignment_of_a_changed_cluster_follows_it_unasked(started: Client) -> None:
    """The repeated request may bear a nonce that another push has made stale, and is then ignored."""
    clusters, endpoints = started.publish(serving({"a": 2, "b": 1}, {"b": 7}))
    assert resource_names(clusters) == ["a", "b"]
    assert resource_names(endpoints) == ["a", "b"]


def test_a_client_that_asks_anew_at_a_refused_nonce_is_answered() -> None:
    """grpcio does so after a cluster was deleted and came back."""
    client = Client(serving({"a": 1}))
    [good] = client.ask(ENDPOINT, ["a"])
    client.ack(good)
    [bad] = client.publish(serving({"a": 1}, {"a": 7}))
    client.nack(bad)
    [again] = client.ask(ENDPOINT, ["a"], version_info=good.version_info, response_nonce=bad.nonce)
    assert resource_names(again) == ["a"]


def test_the_age_of_the_oldest_push_without_a_verdict_is_known(started: Client) -> None:
    started.now_ms = 1000
    started.publish(serving({"a": 2, "b": 1}))
    started.now_ms = 2000
    started.publish(serving({"a": 3, "b": 1}))
    assert started.stream.status(6000).oldest_unacked_ms == 5000


def test_a_client_without_verdicts_costs_bounded_memory(started: Client) -> None:
    for revision in range(2, 3 * MOST_PENDING):
        started.now_ms = revision
        started.publish(serving({"a": revision, "b": 1}))
    subscription = started.stream._subscriptions[CLUSTER]
    assert len(subscription.pending) == MOST_PENDING
    assert started.stream.status(1000).oldest_unacked_ms == 998
    started.ack_all([started.last[CLUSTER]])
    assert not subscription.pending


def test_a_client_that_names_each_resource_is_served_without_a_wildcard() -> None:
    """As grpcio does: listeners, routes, clusters and endpoints by name, in that order."""
    client = Client(serving({"a": 1, "b": 1}))
    for type_url, name in ((LISTENER, "l"), (ROUTE, "r"), (CLUSTER, "a"), (ENDPOINT, "a")):
        [response] = client.ask(type_url, [name])
        assert resource_names(response) == [name]
        assert client.ack(response) == []


def test_the_assignment_of_a_cluster_that_went_and_came_back_follows_it() -> None:
    """The names that Envoy asks for in between are stale by then, and its last ones look unchanged."""
    client = Client(serving({"a": 1, "b": 1}))
    client.ask(CLUSTER, [])
    client.publish(serving({"a": 1}))
    client.ask(ENDPOINT, ["a", "b"])
    client.publish(serving({}))
    clusters, endpoints = client.publish(serving({"a": 1, "b": 1}))
    assert (resource_names(clusters), resource_names(endpoints)) == (["a", "b"], ["a", "b"])


def test_a_cluster_that_no_route_of_this_client_names_is_not_kept() -> None:
    """Without endpoints to give it would never warm, and hold back every listener and route."""
    client = Client(serving({}))
    client.ask(CLUSTER, [])
    client.ask(ROUTE, ["r"])
    client.publish(serving({"a": 1}))
    [clusters] = client.publish(serving({}))
    assert resource_names(clusters) == []
