"""What operators see of each Envoy: in the log, in metrics and in `tidegate status`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from tests.xds.clients import Client, serving
from xds_server.metrics import MOST_NODES, ClientStates
from xds_server.presence import OVERDUE_MS, Overdue
from xds_server.subscription.stream import StreamStatus
from xds_server.type_urls import CLUSTER


def status(node: str = "e", **more: Any) -> StreamStatus:
    return StreamStatus(node=node, acked={}, nacked={}, last_error=None, oldest_unacked_ms=None, **more)


def test_fact_28_a_push_that_is_not_answered_is_said_once_and_so_is_its_end() -> None:
    overdue, late = Overdue(), status(unacked_ms={"cds": OVERDUE_MS})
    with capture_logs() as logs:
        for statuses in ([status(unacked_ms={"cds": OVERDUE_MS - 1})], [late], [late], [status()], [status()]):
            overdue.look(statuses)
    assert [(line["log_level"], line["node"], line["type"]) for line in logs] == [
        ("warning", "e", "cds"),
        ("info", "e", "cds"),
    ]


def test_metrics_hold_the_age_and_the_last_verdict_by_node_and_type() -> None:
    registry = CollectorRegistry()
    ClientStates(lambda: [status(unacked_ms={"cds": 2500}), status("f")], registry)
    labels = {"node": "e", "type": "cds"}
    assert registry.get_sample_value("tidegate_xds_unacked_age_seconds", labels) == 2.5


def test_metrics_say_that_a_client_refuses() -> None:
    client, registry = Client(serving({"a": 1})), CollectorRegistry()
    [response] = client.ask(CLUSTER, [], node={"id": "e"})
    client.nack(response)
    ClientStates(lambda: [client.stream.status(0)], registry)
    labels = {"node": "e", "type": "cds"}
    assert registry.get_sample_value("tidegate_xds_last_push_refused", labels) == 1
    assert registry.get_sample_value("tidegate_xds_unacked_age_seconds", labels) == 0


def test_nodes_past_the_most_share_one_label() -> None:
    registry = CollectorRegistry()
    many = [status(f"e{n}", unacked_ms={"eds": n}) for n in range(MOST_NODES + 50)]
    ClientStates(lambda: many, registry)
    [ages, _] = list(ClientStates(lambda: many, CollectorRegistry()).collect())
    assert len(ages.samples) == MOST_NODES + 1
    labels = {"node": "others", "type": "eds"}
    assert registry.get_sample_value("tidegate_xds_unacked_age_seconds", labels) == (MOST_NODES + 49) / 1000


def test_status_holds_versions_errors_and_ages_by_type() -> None:
    client = Client(serving({"a": 1}))
    client.now_ms = 1000
    [first] = client.ask(CLUSTER, [], node={"id": "e"})
    client.nack(first, "because")
    client.publish(serving({"a": 2}))
    shown = asdict(client.stream.status(1500))
    assert (shown["node"], shown["protocol"], shown["errors"], shown["unacked_ms"], shown["refusing"]) == (
        "e",
        "sotw",
        {"cds": "because"},
        {"cds": 500},
        ("cds",),
    )
