"""The delta stream, message by message. Numbers are those of docs/xds.md."""

from __future__ import annotations

import pytest

from tests.xds.clients import DeltaClient, resource_names, serving, types
from tidegate.domain.errors import ProtocolViolation
from xds_server.subscription.stream import CLUSTERS_PATIENCE_MS, ROUTES_PATIENCE_MS
from xds_server.subscription.verdicts import MOST_PENDING
from xds_server.type_urls import CLUSTER, ENDPOINT, LISTENER, ROUTE


@pytest.fixture
def started() -> DeltaClient:
    client = DeltaClient(serving({"a": 1, "b": 1}))
    client.start()
    return client


def test_fact_42_a_change_among_thousands_of_clusters_is_one_resource() -> None:
    many = {f"c{n}": 1 for n in range(3000)}
    client = DeltaClient(serving(many))
    client.ack_all(client.ask(CLUSTER))
    [response] = client.publish(serving({**many, "c7": 2}))
    assert resource_names(response) == ["c7"]


def test_fact_05_error_detail_alone_makes_a_delta_nack(started: DeltaClient) -> None:
    accepted = started.stream.status(0).acked["eds"]
    [bad] = started.publish(serving({"a": 1, "b": 1}, {"a": 7}))
    started.nack(bad, "weight")
    status = started.stream.status(0)
    assert (status.acked["eds"], status.nacked["eds"], status.last_error, status.refusing) == (
        accepted,
        bad.version_info,
        "weight",
        ("eds",),
    )


def test_fact_08_a_delta_ack_triggers_no_response() -> None:
    client = DeltaClient(serving({"a": 1}))
    [response] = client.ask(CLUSTER)
    assert client.ack(response) == []


def test_fact_10_delta_sends_only_what_changed(started: DeltaClient) -> None:
    clusters, _ = started.publish(serving({"a": 2, "b": 1}))
    assert resource_names(clusters) == ["a"]


def test_fact_16_a_response_names_no_resource_twice(started: DeltaClient) -> None:
    started.ask(ENDPOINT, ["a", "a"])
    [response] = started.ask(ENDPOINT, ["a", "a", "b"])
    assert sorted(resource_names(response)) == sorted(set(resource_names(response))) == ["a", "b"]


def test_fact_19_two_fast_delta_pushes_are_each_acknowledged(started: DeltaClient) -> None:
    [first] = started.publish(serving({"a": 1, "b": 1}, {"a": 7}))
    [second] = started.publish(serving({"a": 1, "b": 1}, {"a": 8}))
    assert started.ack(first) == []
    assert started.stream.status(0).acked["eds"] == first.version_info
    assert started.ack(second) == []
    assert started.stream.status(0).acked["eds"] == second.version_info


def test_fact_21_delta_pushes_are_ordered_and_listeners_and_routes_wait_for_clusters(started: DeltaClient) -> None:
    first = started.publish(serving({"a": 2, "b": 2}, {"a": 7}, route_to="b", listener=2))
    assert types(first) == ["cds", "eds"]
    assert types(started.ack(first[1])) == []
    assert types(started.ack(first[0])) == ["lds", "rds"]


def test_fact_21_a_cluster_is_removed_only_after_the_routes_that_named_it(started: DeltaClient) -> None:
    pushed = started.publish(serving({"a": 1}, route_to="a only"))
    assert types(pushed) == ["eds", "rds"]
    assert (pushed[0].resources, pushed[0].removed_resources) == ((), ("b",))
    [removal] = started.ack(pushed[1])
    assert (removal.type_url, removal.resources, removal.removed_resources) == (CLUSTER, (), ("b",))
    started.ack(removal)
    assert started.stream.status(0).acked["cds"] == started.snapshot.version(CLUSTER)  # type: ignore[union-attr]


def test_fact_25_the_assignment_of_a_changed_cluster_follows_it_unasked(started: DeltaClient) -> None:
    clusters, endpoints = started.publish(serving({"a": 2, "b": 1}))
    assert (resource_names(clusters), resource_names(endpoints)) == (["a"], ["a"])


def test_fact_30_names_are_added_and_dropped_even_with_a_stale_nonce(started: DeltaClient) -> None:
    [old] = started.publish(serving({"a": 1, "b": 1, "c": 1}, {"a": 7}))[1:]
    started.publish(serving({"a": 1, "b": 1, "c": 1}, {"a": 8}))
    [response] = started.ask(ENDPOINT, ["c"], ["b"], response_nonce=old.nonce)
    assert resource_names(response) == ["c"]
    [response] = started.publish(serving({"a": 1, "b": 1, "c": 1}, {"a": 9, "b": 9, "c": 9}))
    assert resource_names(response) == ["a", "c"]


def test_fact_30_a_spontaneous_request_settles_nothing(started: DeltaClient) -> None:
    started.publish(serving({"a": 1, "b": 1}, {"a": 7}))
    started.ask(ENDPOINT, ["b"])
    assert started.stream.status(5).oldest_unacked_ms == 5


def test_fact_31_a_reconnect_at_the_same_content_is_sent_nothing(started: DeltaClient) -> None:
    client = started.reconnected(serving({"a": 1, "b": 1}))
    assert client.ask(CLUSTER, held=client.held[CLUSTER]) == []
    assert client.ask(ENDPOINT, ["a", "b"], held=client.held[ENDPOINT]) == []
    assert client.ask(LISTENER, held=client.held[LISTENER]) == []
    assert client.ask(ROUTE, ["r"], held=client.held[ROUTE]) == []
    assert client.stream.status(0).acked == started.stream.status(0).acked


def test_fact_31_a_reconnect_is_sent_differences_and_removals_alone(started: DeltaClient) -> None:
    client = started.reconnected(serving({"b": 1, "c": 1}, {"b": 7}, route_to="b"))
    [clusters] = client.ask(CLUSTER, held=client.held[CLUSTER])
    assert (resource_names(clusters), clusters.removed_resources) == (["c"], ())
    [endpoints] = client.ask(ENDPOINT, ["a", "b"], held=client.held[ENDPOINT])
    assert (resource_names(endpoints), endpoints.removed_resources) == (["b"], ("a",))
    assert client.ask(ROUTE, ["r"], held=client.held[ROUTE]) == []
    [routes] = client.ack(clusters)
    assert routes.type_url == ROUTE
    [removal] = client.ack(routes)
    assert (removal.type_url, removal.removed_resources) == (CLUSTER, ("a",))


def test_fact_31_removals_do_not_wait_for_ever_for_a_client_without_routes(started: DeltaClient) -> None:
    client = started.reconnected(serving({"b": 1}))
    assert client.ask(CLUSTER, held=client.held[CLUSTER]) == []
    assert client.stream.wake_at_ms == ROUTES_PATIENCE_MS
    client.now_ms = ROUTES_PATIENCE_MS
    [removal] = client.due()
    assert removal.removed_resources == ("a",)
    assert client.stream.wake_at_ms is None


def test_fact_31_versions_are_those_of_another_server_with_the_same_content() -> None:
    one, other = serving({"a": 1}), serving({"a": 1})
    assert one.resources(CLUSTER)["a"].version == other.resources(CLUSTER)["a"].version


def test_fact_32_the_first_wildcard_request_gets_a_reply_even_when_empty() -> None:
    client = DeltaClient(serving({}))
    [response] = client.ask(CLUSTER)
    assert (response.resources, response.removed_resources) == ((), ())
    assert client.ack(response) == []


def test_fact_33_subscribing_again_to_a_sent_name_resends(started: DeltaClient) -> None:
    [response] = started.ask(ENDPOINT, ["a"])
    assert resource_names(response) == ["a"]


def test_fact_34_a_missing_name_is_listed_as_removed_and_its_subscription_lives() -> None:
    client = DeltaClient(serving({"a": 1}))
    [response] = client.ask(ENDPOINT, ["a", "late"])
    assert (resource_names(response), response.removed_resources) == (["a"], ("late",))
    assert client.ack(response) == []
    [late] = client.publish(serving({"a": 1, "late": 1}))
    assert resource_names(late) == ["late"]
    [gone] = client.publish(serving({"a": 1}))
    assert gone.removed_resources == ("late",)


def test_fact_36_a_name_dropped_while_wildcard_is_sent_or_listed_as_removed(started: DeltaClient) -> None:
    started.ask(CLUSTER, ["a", "ghost"])
    [response, *_] = started.ask(CLUSTER, unsubscribe=["a"])
    assert resource_names(response) == ["a"]
    [response] = started.ask(CLUSTER, unsubscribe=["ghost"])
    assert response.removed_resources == ("ghost",)
    assert resource_names(started.publish(serving({"a": 3, "b": 1}))[0]) == ["a"]


def test_fact_37_a_phantom_unsubscribe_is_tolerated(started: DeltaClient) -> None:
    assert started.ask(ENDPOINT, unsubscribe=["never heard of"]) == []
    assert started.ask(CLUSTER, unsubscribe=["never heard of"]) == []


def test_fact_38_refused_content_is_not_sent_again_on_the_stream(started: DeltaClient) -> None:
    [bad, *_] = started.publish(serving({"a": 2, "b": 1}))
    assert CLUSTER not in {r.type_url for r in started.nack(bad)}
    assert "cds" not in types(started.publish(serving({"a": 2, "b": 1}, {"b": 9})))
    assert "cds" in types(started.publish(serving({"a": 1, "b": 1})))


def test_fact_38_what_a_client_refused_and_does_not_list_is_sent_on_its_next_stream(started: DeltaClient) -> None:
    [bad, *_] = started.publish(serving({"a": 1, "b": 1, "c": 1}))
    started.nack(bad)
    client = started.reconnected(serving({"a": 1, "b": 1, "c": 1}))
    [clusters] = client.ask(CLUSTER, held=client.held[CLUSTER])
    assert resource_names(clusters) == ["c"]


@pytest.mark.parametrize("type_url", [CLUSTER, LISTENER])
def test_fact_39_explicit_names_are_no_wildcard(type_url: str) -> None:
    client = DeltaClient(serving({"a": 1, "b": 1}))
    [response] = client.ask(type_url, [{CLUSTER: "a", LISTENER: "l"}[type_url]])
    client.ack(response)
    assert len(response.resources) == 1
    assert "b" not in [n for r in client.publish(serving({"a": 1, "b": 2})) for n in resource_names(r)]


def test_fact_15_the_explicit_wildcard_is_entered_joined_and_left_in_delta() -> None:
    client = DeltaClient(serving({"a": 1, "b": 1}))
    client.ack_all(client.ask(CLUSTER, ["a"]))
    [rest] = client.ask(CLUSTER, ["*"])
    assert resource_names(rest) == ["b"]
    client.ack(rest)
    assert client.ask(CLUSTER, unsubscribe=["*"]) == []
    assert client.publish(serving({"a": 1, "b": 2})) == []
    assert resource_names(client.publish(serving({"a": 2, "b": 2}))[0]) == ["a"]


def test_fact_14_no_names_from_the_start_is_none_for_delta_eds_and_rds() -> None:
    client = DeltaClient(serving({"a": 1}))
    assert client.ask(ENDPOINT) == []
    assert client.ask(ROUTE) == []


def test_fact_40_a_delta_client_without_verdicts_costs_bounded_memory(started: DeltaClient) -> None:
    for revision in range(2, 3 * MOST_PENDING):
        started.publish(serving({"a": revision, "b": 1}))
    assert len(started.stream._subscriptions[CLUSTER].pending) == MOST_PENDING


def test_fact_40_what_could_not_be_written_is_replaced_by_the_newest(started: DeltaClient) -> None:
    """The state machine gives one response at a time: snapshots in between leave no trace."""
    newest = serving({"a": 1, "b": 1}, {"a": 99})
    for weight in range(2, 50):
        started.snapshot = serving({"a": 1, "b": 1}, {"a": weight})
    [response] = started.publish(newest)
    assert [r.version for r in response.resources] == [newest.resources(ENDPOINT)["a"].version]


def test_fact_41_a_reconnect_that_asks_for_a_dead_route_is_told_so(started: DeltaClient) -> None:
    client = started.reconnected(serving({"a": 1, "b": 1}))
    client.ask(CLUSTER, held=client.held[CLUSTER])
    [response] = client.ask(ROUTE, ["r", "dead"], held={**client.held[ROUTE], "dead": "1"})
    assert (response.resources, response.removed_resources) == ((), ("dead",))


def test_fact_41_endpoints_come_in_full_to_a_client_that_reconnects_while_clusters_warm(started: DeltaClient) -> None:
    """Envoy asks for endpoints and, while it warms, not for clusters; listeners and routes wait for those."""
    client = started.reconnected(serving({"a": 1, "b": 1}, route_to="b"))
    [endpoints] = client.ask(ENDPOINT, ["a", "b"], held=client.held[ENDPOINT])
    assert resource_names(endpoints) == ["a", "b"]
    client.ack(endpoints)
    assert client.ask(ROUTE, ["r"], held=client.held[ROUTE]) == []
    assert types(client.ask(CLUSTER, held=client.held[CLUSTER])) == ["rds"]


def test_fact_41_a_client_without_clusters_gets_its_routes_in_the_end() -> None:
    client = DeltaClient(serving({"a": 1}))
    client.ack_all(client.ask(ENDPOINT, ["a"]))
    assert client.ask(ROUTE, ["r"]) == []
    client.now_ms = CLUSTERS_PATIENCE_MS
    assert types(client.due()) == ["rds"]


def test_a_client_of_endpoints_alone_is_not_waited_for_without_end() -> None:
    """A time that has passed is none to wake at: the server would turn in a loop."""
    client = DeltaClient(serving({"a": 1}))
    client.ack_all(client.ask(ENDPOINT, ["a"]))
    client.now_ms = CLUSTERS_PATIENCE_MS
    assert client.due() == []
    assert client.stream.wake_at_ms is None


def test_fact_41_a_cluster_that_changed_during_the_outage_is_given_its_endpoints(started: DeltaClient) -> None:
    client = started.reconnected(serving({"a": 2, "b": 1}))
    client.ask(CLUSTER, held=client.held[CLUSTER])
    [endpoints] = client.ask(ENDPOINT, ["a", "b"], held=client.held[ENDPOINT])
    assert resource_names(endpoints) == ["a"]


def test_a_stream_of_one_type_needs_no_type_url_and_takes_no_other() -> None:
    client = DeltaClient(serving({"a": 1}), only=ENDPOINT)
    [response] = client.ask("", ["a"])
    assert (response.type_url, resource_names(response)) == (ENDPOINT, ["a"])
    with pytest.raises(ProtocolViolation, match="stream of"):
        client.ask(CLUSTER)


def test_a_stream_of_endpoints_alone_believes_what_its_client_holds() -> None:
    snapshot = serving({"a": 1})
    client = DeltaClient(snapshot, only=ENDPOINT)
    assert client.ask(ENDPOINT, ["a"], held={"a": snapshot.resources(ENDPOINT)["a"].version}) == []
