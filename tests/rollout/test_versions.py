"""Each version of a model is counted by itself, also where its cluster serves other models."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from outcomes.book import Book
from outcomes.versions_page import VersionsPage
from tests.outcomes.entries import outcome
from tests.rollout.figures import figures, told
from tidegate.domain.outcomes.ending import Ending
from tidegate.domain.outcomes.report import Report
from tidegate.domain.outcomes.sketch import Sketch, quantile_of
from tidegate.domain.outcomes.version import Figures, last_minute
from tidegate.domain.rollout.snapshot import versions_seen
from tidegate.runtime import now_ms
from tidegate.store.memory import MemoryStore
from tidegate.store.redis import RedisStore
from tidegate.store.rollouts import SplitLine


class Clock:
    def __init__(self) -> None:
        self.at_ms = 1_000_000

    def __call__(self) -> int:
        return self.at_ms


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def book(clock: Clock) -> Book:
    return Book(clock, models=["m", "n"], split_models=["m", "n"], run="r")


def served(book: Book, count: int, **more: Any) -> None:
    for _ in range(count):
        book.add(outcome(**more))


def test_models_of_one_cluster_are_told_apart(book: Book) -> None:
    served(book, 3, model="m", total_ms=100.0)
    served(book, 2, model="n", total_ms=900.0)
    served(book, 1, model="n", ending=Ending.FAULT)
    versions = book.report().versions
    m, n = versions["m"]["chat"].last_minute(), versions["n"]["chat"].last_minute()
    assert (m.requests, m.error_ratio, n.requests, n.error_ratio) == (3, 0.0, 3, 1 / 3)
    assert [m.quantile_ms(0.95), n.quantile_ms(0.95)] == pytest.approx([100, 900], rel=0.01)


def test_models_that_may_have_no_split_are_not_counted_by_version(book: Book) -> None:
    served(book, 3, model="whatever clients write")
    assert book.report().versions == {}


def test_the_last_minute_goes_by_and_the_sum_stays(book: Book, clock: Clock) -> None:
    served(book, 3)
    clock.at_ms += 30_000
    served(book, 4)
    now = book.report().versions["m"]["chat"]
    assert (now.last_minute().requests, now.since_the_start().requests) == (7, 7)
    clock.at_ms += 40_000
    later = book.report().versions["m"]["chat"]
    assert (later.last_minute().requests, later.since_the_start().requests) == (4, 7)
    clock.at_ms += 3_700_000
    at_last = book.report().versions["m"]["chat"]
    assert (at_last.last_minute().requests, sum(at_last.since_the_start().times.values())) == (0, 7)


def test_what_came_since_is_the_difference_and_all_of_a_counter_that_began_anew() -> None:
    before, after = figures(10, faults=2), figures(25, faults=3)
    assert after.since(before) == figures(15, faults=1)
    assert before.since(after) is before
    assert Figures().since(Figures()) == Figures()


def test_a_quantile_of_bins_is_that_of_their_sketch() -> None:
    sketch, times = Sketch(), dict[int, int]()
    for number in range(1, 500):
        one = figures(1, ms=number * 7.3)
        sketch.add(number * 7.3)
        times = Figures(times=times).plus(one).times
    for part in (0.0, 0.5, 0.95, 0.99, 1.0):
        assert quantile_of(times, part) == sketch.quantile_ms(part)
    assert quantile_of({}, 0.5) is None


def test_a_snapshot_says_what_is_unknown() -> None:
    parts = (("stable", 900), ("canary", 100))
    unknown = versions_seen(parts, None)[1]
    assert [unknown[name] for name in ("seen_permille", "requests", "error_rate", "p95_ms")] == [None] * 4
    seen = last_minute([{"stable": told(figures(60))}, {"stable": told(figures(20)), "canary": told(figures(20, 5))}])
    stable, canary = versions_seen(parts, seen)
    assert (stable["requests"], stable["seen_permille"], stable["error_rate"]) == (80, 800.0, 0.0)
    assert (canary["requests"], canary["seen_permille"], canary["error_rate"]) == (20, 200.0, 0.25)
    assert canary["p95_ms"] == pytest.approx(100, rel=0.01)


def test_versions_are_on_the_metrics_page(book: Book, clock: Clock) -> None:
    registry = CollectorRegistry()
    VersionsPage(registry, book, clock)
    served(book, 4)
    page = generate_latest(registry).decode()
    assert 'tidegate_outcomes_version_requests_total{ending="served",model="m",version="chat"} 4.0' in page
    assert 'tidegate_outcomes_version_seconds{model="m",quantile="0.95",version="chat"} 0.0' in page


# --- in both stores -----------------------------------------------------------------------------------------


@pytest.fixture(params=["memory", pytest.param("redis", marks=pytest.mark.redis)])
async def store(request: Any) -> AsyncIterator[Any]:
    one = MemoryStore(now_ms) if request.param == "memory" else RedisStore(request.getfixturevalue("redis_url"))
    yield one
    await one.close()


async def test_versions_and_the_run_cross_the_store(store: Any, book: Book) -> None:
    served(book, 3)
    await store.tell_outcomes("one", book.report(), ttl_ms=60_000)
    await store.tell_outcomes("two", Report(run="idle"), ttl_ms=60_000)
    found = {one.run: one.versions for one in await store.outcomes((), (), ["m", "n"])}
    assert (set(found), found["idle"], set(found["r"])) == ({"r", "idle"}, {}, {"m"})
    assert found["r"]["m"]["chat"].since_the_start().requests == 3


async def test_a_splits_history_comes_back_oldest_first(store: Any) -> None:
    for number in range(4):
        line = SplitLine(at_ms=number, why="changed", versions={"stable": {"requests": number}})
        await store.note_split("m", line)
    assert [line.at_ms for line in await store.split_history("m", 2)] == [2, 3]
    assert (await store.split_history("m", 1))[0].versions == {"stable": {"requests": 3}}
    assert await store.split_history("nobody", 5) == []


async def test_rollouts_are_those_that_are_there(store: Any) -> None:
    await store.set_field("rollout:m", "to", "canary")
    await store.set_field("rollouts", "m", "17")
    assert await store.rollouts(["m", "n"]) == ({"m": {"to": "canary"}}, {"m": "17"})
