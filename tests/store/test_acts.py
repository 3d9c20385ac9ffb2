"""Acts in a store: each source writes its own, fenced, and readers add them up."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.actions.acts import NOW_MS, act
from tidegate.domain.actions.effects import NONE, summed
from tidegate.domain.errors import NotLeading
from tidegate.store.memory import MemoryStore
from tidegate.store.ports import Event, Store
from tidegate.store.redis import RedisStore

CUT = act(cluster="phi-3", to=0)
HELD = act("hold", ident="b2", classes=("batch",))


@pytest.fixture(params=["redis", "memory"])
async def store(request: pytest.FixtureRequest) -> AsyncIterator[Store]:
    if request.param == "memory":
        yield MemoryStore(lambda: NOW_MS)
        return
    store = RedisStore(request.getfixturevalue("redis_url"), timeout_seconds=10.0)
    yield store
    await store.close()


async def test_acts_of_every_source_add_up(store: Store) -> None:
    assert await store.effects() == NONE
    said = Event(at_ms=NOW_MS, who="alert Trouble", what="retries phi-3", after="to 0")
    await store.write_acts("alerts", [CUT], [said])
    await store.write_acts("self-healing", [HELD], [])
    assert {one.id: one for one in await store.acts()} == {"a1": CUT, "b2": HELD}
    assert summed([CUT, HELD]) == await store.effects()
    assert [said] == await store.events(10)


async def test_a_source_replaces_its_acts_and_leaves_the_others(store: Store) -> None:
    await store.write_acts("alerts", [CUT], [])
    await store.write_acts("self-healing", [HELD], [])
    await store.write_acts("alerts", [], [])
    assert await store.acts() == [HELD]


async def test_whoever_does_not_lead_writes_no_acts(store: Store) -> None:
    lease = await store.take_lead("one", ttl_ms=60_000)
    assert lease is not None
    await store.resign(lease)
    with pytest.raises(NotLeading):
        await store.write_acts("alerts", [CUT], [], lease=lease)
    assert await store.acts() == []


async def test_what_is_no_list_of_acts_is_left_out(store: Store) -> None:
    await store.write_acts("alerts", [CUT], [])
    if isinstance(store, MemoryStore):
        store._acts["garbage"] = b'[{"id": 3}]'
    else:
        await store.set_field("acts", "garbage", '[{"id": 3}]')
    assert await store.acts() == [CUT]
