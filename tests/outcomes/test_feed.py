"""What Envoy saw in the load index, on the metrics page and in status."""

from __future__ import annotations

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest

from controller.controller import Controller
from controller.latencies import LEAST_REQUESTS
from outcomes.book import OTHER, PROMPTLY_MS, SILENT_MS, Book
from outcomes.page import Page
from outcomes.server import AccessLogs
from tests.controller.world import TOPOLOGY, A, B, Clock, tick
from tests.outcomes.entries import entry, outcome
from tidegate.cli.outcomes import seen_line, slo_line
from tidegate.cli.report import gather
from tidegate.domain.outcomes.ending import Ending
from tidegate.domain.outcomes.report import Report
from tidegate.domain.outcomes.slo import Slo
from tidegate.domain.topology import Topology
from tidegate.store.memory import MemoryStore

SLO = Slo("m", ttfb_p95_ms=10, error_rate=0.01)


def book_of(clock: Clock, replica: str, count: int, **more: object) -> Book:
    book = Book(clock, models=["m"], classes=["default"], slos=[SLO])
    for _ in range(count):
        book.add(outcome(cluster="phi-3", replica=replica, **more))
    return book


async def test_the_load_index_gets_the_p99_of_a_replica_whose_engine_tells_none() -> None:
    clock = Clock()
    store = MemoryStore(clock)
    controller = Controller(store, TOPOLOGY, clock=clock)
    await store.publish(tick(clock(), a=0.1, b=0.1), ttl_ms=10_000)
    await store.tell_outcomes("one", book_of(clock, A, LEAST_REQUESTS, engine_ms=10_000.0).report(), ttl_ms=5_000)
    await store.tell_outcomes("two", book_of(clock, B, LEAST_REQUESTS - 1).report(), ttl_ms=5_000)
    await controller.tick()
    await controller.look_at_outcomes()
    clock.at_ms += 250
    await controller.tick()
    clock.at_ms += 1_000
    await controller.tick()
    explained = (await store.explain(["phi-3"]))["phi-3"]
    assert 0.49 < explained[A]["load"]["latency"] < 0.51
    assert explained[B]["load"]["latency"] is None


async def test_status_adds_up_what_instances_told() -> None:
    clock, topology = Clock(), Topology(clusters=TOPOLOGY.clusters, slos=(SLO,))
    store = MemoryStore(clock)
    assert (await gather(store, topology, clock()))["clusters"][0]["outcomes"] is None
    faulty = book_of(clock, B, 10, ending=Ending.FAULT)
    served = book_of(clock, A, 30)
    clock.at_ms += 10_000
    await store.tell_outcomes("one", served.report(), ttl_ms=5_000)
    await store.tell_outcomes("two", faulty.report(), ttl_ms=5_000)
    report = await gather(store, topology, clock())
    (cluster,) = report["clusters"]
    assert (cluster["outcomes"]["served"], cluster["outcomes"]["fault"]) == (30, 10)
    assert (cluster["outcomes"]["error_rate"], cluster["outcomes"]["requests_per_second"]) == (0.25, 4.0)
    assert [e["outcomes"]["served"] for e in cluster["endpoints"]] == [30, 0]
    assert seen_line(cluster["outcomes"]).startswith("4.0 requests/s, 25.0% faults, p95 60 ms")
    late, errors = report["slos"]
    assert (late["burn_5m"], errors["burn_1h"], errors["burns"]) == (20.0, 25.0, True)
    assert slo_line(errors) == "m: error_rate 0.01: burn 25 over 5 min, 25 over 1 h"
    clock.at_ms += 5_000
    assert (await gather(store, topology, clock()))["clusters"][0]["outcomes"] is None


def page_of(book: Book, clock: Clock) -> str:
    registry, logs = CollectorRegistry(), AccessLogs(book.add)
    Page(registry, book, logs, {"m": SLO}, lambda: book.report().models, clock)
    return generate_latest(registry).decode()


def test_labels_that_clients_choose_are_bounded() -> None:
    clock = Clock()
    book = book_of(clock, A, 0)
    for number in range(1000):
        book.add(outcome(model=f"made-up-{number}", request_class=f"c{number}", cluster="phi-3", replica=A))
    assert list(book.by_model) == [(OTHER, OTHER)]
    assert "made-up" not in page_of(book, clock)


def test_the_page_has_counts_quantiles_and_burn_rates() -> None:
    clock = Clock()
    page = page_of(book_of(clock, A, 20), clock)
    for line in (
        f'tidegate_outcomes_requests_total{{cluster="phi-3",ending="served",replica="{A}"}} 20.0',
        'tidegate_outcomes_model_requests_total{class="default",ending="served",model="m"} 20.0',
        'tidegate_outcomes_slo_burn_ratio{model="m",objective="ttfb_p95_ms",window="5m"} 20.0',
        'tidegate_outcomes_slo_burning{model="m",objective="ttfb_p95_ms"} 1.0',
        "tidegate_outcomes_streams 0.0",
    ):
        assert line in page
    assert 'tidegate_outcomes_total_seconds{cluster="phi-3",quantile="0.95",replica="all"} 0.0' in page


def test_a_replica_without_requests_leaves_the_report_and_then_the_book() -> None:
    clock = Clock()
    book = book_of(clock, A, 1)
    clock.at_ms += PROMPTLY_MS
    assert book.report() == Report({}, book.report().models)
    assert book.places
    clock.at_ms += SILENT_MS
    book.report()
    assert not book.places


def test_only_a_requests_last_word_is_counted() -> None:
    counted: list[object] = []
    logs, last, between = AccessLogs(counted.append), entry(), entry()
    between.common_properties.intermediate_log_entry = True
    for one in (between, last):
        logs.entry(one)
    assert (len(counted), logs.counted, logs.ignored) == (1, 1, 1)
