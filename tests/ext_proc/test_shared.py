"""Instances of ext_proc tell one another their dispatches, and nothing ever waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from prometheus_client import CollectorRegistry

from ext_proc import shared
from ext_proc.feed import SERVICE
from ext_proc.shared import MOST_KEPT, MOST_RECORDS, SharedPicks, SharedPicksMetrics
from tests.conftest import until
from tidegate.domain.pick.record import DispatchRecord
from tidegate.store.memory import MemoryStore

NOW = 1_800_000_000_000


def sent(number: int = 0, at_ms: float = NOW) -> DispatchRecord:
    return DispatchRecord(f"10.0.0.{number}:8000", at_ms, 1000.0, 1200, marks=(1,), ends=(1000,))


class Instance:
    """One ext_proc's sharing, and what it heard."""

    def __init__(self, store: MemoryStore, name: str) -> None:
        self.shared, self.store, self.name = SharedPicks(store, name, lambda: NOW), store, name
        self.heard: list[tuple[str, DispatchRecord, int]] = []
        self.others: list[tuple[int, int]] = []

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        await self.store.beat(SERVICE, self.name, {}, ttl_ms=60_000)
        follow = self.shared.follow(lambda *one: self.heard.append(one))
        tasks = [
            asyncio.create_task(task)
            for task in (self.shared.publish(), self.shared.meet(lambda *one: self.others.append(one)), follow)
        ]
        try:
            await until(lambda: not self.shared.alone, what="company")
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared, "MEET_SECONDS", 0.01)
    monkeypatch.setattr(shared, "RETRY_SECONDS", 0.01)


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore(lambda: NOW)


@asynccontextmanager
async def company(store: MemoryStore, names: str = "ab") -> AsyncIterator[list[Instance]]:
    instances = [Instance(store, name) for name in names]
    async with asyncio.TaskGroup() as group:
        over = asyncio.Event()

        async def run(instance: Instance) -> None:
            async with instance.running():
                await over.wait()

        for instance in instances:
            group.create_task(run(instance))
        await until(lambda: all(not one.shared.alone for one in instances), what="company")
        await until(lambda: len(store._pickers) == len(instances), what="listeners")
        yield instances
        over.set()


async def test_the_others_hear_of_a_dispatch_and_the_sender_does_not(store: MemoryStore) -> None:
    async with company(store, "abc") as (a, b, c):
        a.shared.record("phi-3", sent(7))
        await until(lambda: b.heard and c.heard, what="both hearing")
        assert a.heard == []
        assert b.heard == c.heard == [("phi-3", sent(7), NOW)]


async def test_it_is_known_how_many_others_there_are(store: MemoryStore) -> None:
    async with company(store, "abc") as (a, _, c):
        await until(lambda: (a.others[-1], c.others[-1]) == ((2, 0), (2, 2)), what="two others, and the places")
        await store.leave(SERVICE, "b")
        await until(lambda: (a.others[-1], c.others[-1]) == ((1, 0), (1, 1)), what="one other")


async def test_many_dispatches_are_few_messages_and_all_arrive_in_order(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches: list[int] = []
    share = store.share
    monkeypatch.setattr(store, "share", lambda batch: batches.append(len(batch.picks)) or share(batch))
    async with company(store) as (a, b):
        for number in range(600):
            a.shared.record("phi-3", sent(number))
        await until(lambda: len(b.heard) == 600, what="all of them")
        assert [record for _, record, _ in b.heard] == [sent(number) for number in range(600)]
        assert batches == [MOST_RECORDS, MOST_RECORDS, 600 - 2 * MOST_RECORDS]


async def test_alone_nothing_is_sent_or_kept(store: MemoryStore) -> None:
    one = Instance(store, "a")
    one.shared.record("phi-3", sent())
    assert not one.shared._kept


async def test_a_lost_store_costs_records_and_nothing_else(store: MemoryStore) -> None:
    async with company(store) as (a, b):
        store.available = False
        a.shared.record("phi-3", sent(1))
        await until(lambda: a.shared.dropped == 1, what="the loss")
        store.available = True
        a.shared.record("phi-3", sent(2))
        await until(lambda: b.heard, what="the next")
        assert b.heard == [("phi-3", sent(2), NOW)]


async def test_the_buffer_is_bounded_and_drops_the_oldest(store: MemoryStore) -> None:
    one = Instance(store, "a").shared
    one.alone = False
    for number in range(MOST_KEPT + 5):
        one.record("phi-3", sent(number))
    assert (len(one._kept), one.dropped) == (MOST_KEPT, 5)
    assert one._kept[0][1] == sent(5)


@pytest.mark.parametrize("at_ms", [NOW - 1001, NOW + 1001], ids=["old", "ahead"])
async def test_what_is_of_another_time_is_not_counted(store: MemoryStore, at_ms: float) -> None:
    async with company(store) as (a, b):
        a.shared._clock = lambda: int(at_ms)
        a.shared.record("phi-3", sent(1, at_ms))
        await until(lambda: b.shared.late, what="the late one")
        assert b.heard == []


async def test_what_grew_old_in_the_buffer_is_not_sent(store: MemoryStore) -> None:
    async with company(store) as (a, b):
        a.shared.record("phi-3", sent(1, NOW - 1001))
        a.shared.record("phi-3", sent(2))
        await until(lambda: b.heard, what="the fresh one")
        assert (a.shared.dropped, [record for _, record, _ in b.heard]) == (1, [sent(2)])


async def test_what_was_told_and_heard_is_on_the_metrics_page(store: MemoryStore) -> None:
    registry = CollectorRegistry()
    async with company(store) as (a, b):
        SharedPicksMetrics(registry, b.shared)
        a.shared.record("phi-3", sent(1, NOW - 250))
        b.shared.record("phi-3", sent(2))
        await until(lambda: b.heard and a.heard, what="both")
        await until(lambda: b.shared.told, what="its own")
    read = registry.get_sample_value
    counts = [read("tidegate_ext_proc_shared_picks_total", {"what": what}) for what in ("told", "heard", "dropped")]
    assert counts == [1, 1, 0]
    assert read("tidegate_ext_proc_shared_picks_delay_seconds_total") == 0.25
