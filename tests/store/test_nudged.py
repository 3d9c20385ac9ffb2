"""A wait ends at a word, or when its time is over; the store may do what it likes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.conftest import until
from tidegate.store.memory import MemoryStore
from tidegate.store.nudged import Nudged

LONG, SHORT = 60.0, 0.01


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore(lambda: 0)


@pytest.fixture
async def nudged(store: MemoryStore) -> AsyncIterator[Nudged]:
    one = Nudged(store)
    task = asyncio.create_task(one.listen())
    await until(lambda: store._nudged, what="a listener")
    yield one
    assert not task.done()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_word_ends_the_wait(store: MemoryStore, nudged: Nudged) -> None:
    await store.nudge()
    assert await nudged.within(LONG)


async def test_words_between_two_waits_are_one(store: MemoryStore, nudged: Nudged) -> None:
    await store.nudge()
    await store.nudge()
    assert await nudged.within(LONG)
    assert not await nudged.within(SHORT)


async def test_silence_lasts_as_long_as_it_was_asked_for(nudged: Nudged) -> None:
    assert not await nudged.within(SHORT)


async def test_a_store_that_is_away_only_costs_the_wait(monkeypatch: pytest.MonkeyPatch, store: MemoryStore) -> None:
    monkeypatch.setattr("tidegate.store.nudged.RETRY_SECONDS", SHORT)
    store.available = False
    one = Nudged(store)
    task = asyncio.create_task(one.listen())
    assert not await one.within(SHORT)
    store.available = True
    await until(lambda: store._nudged, what="a listener")
    await store.nudge()
    assert await one.within(LONG)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
