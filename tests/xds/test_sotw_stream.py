"""The state-of-the-world stream, message by message. Numbers are those of docs/xds.md."""

from __future__ import annotations

import pytest
from envoy.service.discovery.v3 import discovery_pb2

from tests.xds.clients import Client, resource_names, serving, types
from tidegate.domain.errors import ProtocolViolation
from xds_server.subscription.stream import Stream
from xds_server.subscription.verdicts import MOST_PENDING
from xds_server.type_urls import CLUSTER, ENDPOINT, LISTENER, ROUTE


@pytest.fixture
def started() -> Client:
    client = Client(serving({"a": 1, "b": 1}))
    client.start()
    return client


def test_fact_01_the_node_of_the_first_message_is_kept() -> None:
    client = Client(serving({"a": 1}))
    client.ask(CLUSTER, [], node={"id": "envoy-1"})
    client.ask(ENDPOINT, ["a"])
    assert client.stream.status(0).node == "envoy-1"


def test_fact_02_a_request_without_type_url_ends_the_stream() -> None:
    with pytest.raises(ProtocolViolation):
        Stream("s").receive(discovery_pb2.DiscoveryRequest(), 0)


def test_a_request_for_a_type_that_is_not_served_gets_no_answer() -> None:
    assert Client(serving({"a": 1})).ask("type.googleapis.com/envoy.service.runtime.v3.Runtime", ["x"]) == []


def test_fact_03_every_nonce_is_used_once_and_never_by_another_stream() -> None:
    nonces = []
    for stream_id in ("s1", "s2"):
        client = Client(serving({"a": 1}), stream_id)
        nonces += [r.nonce for r in client.ask(CLUSTER, [])]
        nonces += [r.nonce for r in client.publish(serving({"a": 2}))]
    assert len(nonces) == 4 == len(set(nonces))


def test_fact_04_a_request_with_a_stale_nonce_is_ignored(started: Client) -> None:
    stale = started.last[ENDPOINT].nonce
    started.publish(serving({"a": 1, "b": 1}, {"a": 7}))
    assert started.ask(ENDPOINT, [], response_nonce=stale) == []
    assert types(started.publish(serving({"a": 1, "b": 1}, {"a": 8}))) == ["eds"]


def test_a_nonce_of_an_earlier_stream_does_not_hide_the_first_request() -> None:
    client = Client(serving({"a": 1}))
    assert types(client.ask(CLUSTER, [], response_nonce="elsewhere.7", version_info="old")) == ["cds"]


def test_fact_08_an_ack_triggers_no_response() -> None:
    client = Client(serving({"a": 1}))
    [response] = client.ask(CLUSTER, [])
    assert client.ack(response) == []


def test_fact_05_error_detail_alone_makes_a_nack_even_with_the_version_it_refuses(started: Client) -> None:
    accepted = started.last[ENDPOINT].version_info
    [bad] = started.publish(serving({"a": 1, "b": 1}, {"a": 7}))
    started.nack(bad, "weight")
    status = started.stream.status(0)
    assert (status.acked["eds"], status.nacked["eds"], status.last_error) == (
        accepted,
        bad.version_info,
        "weight",
    )


def test_of_a_refusals_text_a_thousand_characters_are_kept(started: Client) -> None:
    [bad] = started.publish(serving({"a": 1, "b": 1}, {"a": 7}))
    started.nack(bad, "x" * 100_000)
    assert started.stream.status(0).last_error == "x" * 1_000


def test_fact_06_refused_content_is_not_sent_again(started: Client) -> None:
    [bad] = started.publish(serving({"a": 2, "b": 1}))[:1]
    assert CLUSTER not in {r.type_url for r in started.nack(bad)}
    assert CLUSTER not in {r.type_url for r in started.nack(bad)}
    assert "cds" not in types(started.publish(serving({"a": 2, "b": 1}, {"b": 9})))


def test_fact_07_a_refusal_that_names_a_version_rolls_nothing_back(started: Client) -> None:
    """Envoy may attach the error of an earlier cluster to a response that it applied."""
    [applied, *_] = started.publish(serving({"a": 2, "b": 1}))
    assert "cds" not in types(started.nack(applied))
    [response, *_] = started.publish(serving({"a": 2, "b": 2}))
    assert response.resources[0].version == applied.resources[0].version


def test_fact_11_a_cluster_set_is_empty_only_when_the_snapshot_is(started: Client) -> None:
    pushed = started.ack_all(started.publish(serving({"a": 1}, route_to="a only")))
    assert [resource_names(r) for r in pushed if r.type_url == CLUSTER] == [["a"]]


@pytest.mark.parametrize("type_url", [ENDPOINT, ROUTE])
def test_fact_12_no_empty_response_of_endpoints_or_routes_is_sent(type_url: str) -> None:
    client = Client(serving({"a": 1}))
    assert client.ask(type_url, ["missing"]) == []
    assert client.publish(serving({})) == []


def test_fact_29_routes_wait_until_the_cluster_that_they_name_is_warm(started: Client) -> None:
    [clusters] = started.publish(serving({"a": 1, "b": 1, "c": 1}, route_to="c"))
    assert clusters.type_url == CLUSTER
    assert types(started.ack(clusters)) == ["rds"]


def test_what_was_good_before_a_nack_is_sent_when_it_is_served_again(started: Client) -> None:
    [bad, *_] = started.publish(serving({"a": 2, "b": 1}))
    started.nack(bad)
    assert "cds" in types(started.publish(serving({"a": 1, "b": 1})))


def test_fact_09_versions_are_apart_by_type(started: Client) -> None:
    before = started.last[CLUSTER].version_info
    [response] = started.publish(serving({"a": 1, "b": 1}, {"a": 7}))
    assert response.type_url == ENDPOINT
    assert started.stream.status(0).acked["cds"] == before


def test_fact_10_cds_and_lds_hold_the_full_set(started: Client) -> None:
    assert resource_names(started.publish(serving({"a": 2, "b": 1}))[0]) == ["a", "b"]


def test_fact_10_eds_holds_only_what_changed(started: Client) -> None:
    [response] = started.publish(serving({"a": 1, "b": 1}, {"b": 7}))
    assert (response.type_url, resource_names(response)) == (ENDPOINT, ["b"])


def test_an_identical_snapshot_pushes_nothing(started: Client) -> None:
    assert started.publish(serving({"a": 1, "b": 1})) == []


def test_an_empty_wildcard_is_answered_once_there_is_a_snapshot() -> None:
    client = Client()
    assert client.ask(CLUSTER, []) == []
    [response] = client.publish(serving({}))
    assert (response.type_url, response.resources) == (CLUSTER, ())


def test_fact_13_an_added_name_is_sent_at_the_same_version() -> None:
    client = Client(serving({"a": 1, "b": 1}))
    client.ack_all(client.ask(ENDPOINT, ["a"]))
    [response] = client.ask(ENDPOINT, ["a", "b"])
    assert resource_names(response) == ["b"]


def test_fact_13_unsubscribing_and_subscribing_again_resends() -> None:
    client = Client(serving({"a": 1, "b": 1}))
    client.ack_all(client.ask(ENDPOINT, ["a", "b"]))
    assert client.ask(ENDPOINT, ["a"]) == []
    [response] = client.ask(ENDPOINT, ["a", "b"])
    assert resource_names(response) == ["b"]


@pytest.mark.parametrize("type_url", [CLUSTER, ENDPOINT])
def test_fact_14_no_names_after_names_is_none(type_url: str) -> None:
    client = Client(serving({"a": 1}))
    client.ack_all(client.ask(type_url, ["a"]))
    assert client.ask(type_url, []) == []
    assert client.publish(serving({"a": 2}, {"a": 2})) == []


@pytest.mark.parametrize("type_url", [CLUSTER, LISTENER])
def test_fact_14_no_names_from_the_start_is_the_wildcard_of_cds_and_lds(type_url: str) -> None:
    client = Client(serving({"a": 1, "b": 1}))
    [response] = client.ask(type_url, [])
    assert len(response.resources) == {CLUSTER: 2, LISTENER: 1}[type_url]


@pytest.mark.parametrize("type_url", [ENDPOINT, ROUTE])
def test_no_names_from_the_start_is_none_for_eds_and_rds(type_url: str) -> None:
    assert Client(serving({"a": 1})).ask(type_url, []) == []


def test_fact_15_the_explicit_wildcard_is_entered_joined_and_left() -> None:
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


def test_fact_18_a_missing_resource_is_sent_when_it_appears_and_holds_back_none() -> None:
    client = Client(serving({"a": 1}))
    [response] = client.ask(ENDPOINT, ["a", "late"])
    assert resource_names(response) == ["a"]
    client.ack(response)
    [late] = client.publish(serving({"a": 1, "late": 1}))
    assert resource_names(late) == ["late"]


def test_fact_18_a_cluster_that_is_asked_for_beside_others_and_missing_is_answered_with_those() -> None:
    client = Client(serving({"a": 1}))
    client.ack_all(client.ask(CLUSTER, ["a"]))
    [response] = client.ask(CLUSTER, ["a", "missing"])
    assert resource_names(response) == ["a"]


def test_fact_19_two_fast_pushes_are_each_acknowledged(started: Client) -> None:
    [first] = started.publish(serving({"a": 1, "b": 1}, {"a": 7}))
    [second] = started.publish(serving({"a": 1, "b": 1}, {"a": 8}))
    assert started.ack(first) == []
    assert started.stream.status(0).acked["eds"] == first.version_info
    assert started.ack(second) == []
    assert started.stream.status(0).acked["eds"] == second.version_info


def test_fact_21_pushes_are_ordered_and_listeners_and_routes_wait_for_clusters(started: Client) -> None:
    first = started.publish(serving({"a": 2, "b": 2}, {"a": 7}, route_to="b", listener=2))
    assert types(first) == ["cds", "eds"]
    assert types(started.ack(first[1])) == []
    assert types(started.ack(first[0])) == ["lds", "rds"]


def test_a_refused_cluster_does_not_hold_back_routes_for_ever(started: Client) -> None:
    [clusters, *_] = started.publish(serving({"a": 2, "b": 1}, route_to="b"))
    assert types(started.nack(clusters)) == ["rds"]


def test_fact_21_a_cluster_goes_only_after_the_routes_that_named_it(started: Client) -> None:
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


def test_fact_24_a_repeated_request_is_answered(started: Client) -> None:
    """After a cluster change Envoy repeats its EDS request; it looks like a second ACK, and Envoy waits."""
    [response] = started.ask(ENDPOINT)
    assert resource_names(response) == ["a", "b"]
    assert started.ack(response) == []


def test_fact_23_the_assignment_of_a_changed_cluster_follows_before_its_ack(started: Client) -> None:
    """The repeated request may bear a nonce that another push has made stale, and is then ignored."""
    clusters, endpoints = started.publish(serving({"a": 2, "b": 1}, {"b": 7}))
    assert resource_names(clusters) == ["a", "b"]
    assert resource_names(endpoints) == ["a", "b"]


def test_fact_56_a_client_that_asks_anew_at_a_refused_nonce_is_answered() -> None:
    """grpcio does so after a cluster was deleted and came back."""
    client = Client(serving({"a": 1}))
    [good] = client.ask(ENDPOINT, ["a"])
    client.ack(good)
    [bad] = client.publish(serving({"a": 1}, {"a": 7}))
    client.nack(bad)
    [again] = client.ask(ENDPOINT, ["a"], version_info=good.version_info, response_nonce=bad.nonce)
    assert resource_names(again) == ["a"]


def test_fact_28_the_age_of_the_oldest_push_without_a_verdict_is_known(started: Client) -> None:
    started.now_ms = 1000
    started.publish(serving({"a": 2, "b": 1}))
    started.now_ms = 2000
    started.publish(serving({"a": 3, "b": 1}))
    assert started.stream.status(6000).oldest_unacked_ms == 5000


def test_fact_40_a_client_without_verdicts_costs_bounded_memory(started: Client) -> None:
    for revision in range(2, 3 * MOST_PENDING):
        started.now_ms = revision
        started.publish(serving({"a": revision, "b": 1}))
    subscription = started.stream._subscriptions[CLUSTER]
    assert len(subscription.pending) == MOST_PENDING
    assert started.stream.status(1000).oldest_unacked_ms == 998
    started.ack_all([started.last[CLUSTER]])
    assert not subscription.pending


def test_fact_56_a_client_that_names_each_resource_is_served_without_a_wildcard() -> None:
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
