"""Acts in a store: each source writes its own, fenced, and readers add them up."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.actions.acts import NOW_MS, act
from tidegate.domain.actions.effects import NONE, summed
from tidegate.domain.actions.notice import Notice
from tidegate.domain.actions.rules import Order
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
    store = RedisStore(request.getfixturevalue("redis_url"), timeout_seconds=60.0)
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


def notice(key: str = "alert:1", **changes: Any) -> Notice:
    order = Order(rule="rule", deed=CUT.deed, for_ms=60_000, at_most_ms=600_000)
    known: dict[str, Any] = {"version_ms": NOW_MS, "first_ms": NOW_MS, "last_ms": NOW_MS, "orders": (order,)}
    return Notice(key=key, cause="alert Trouble", **{**known, **changes})


async def test_what_hooks_deliver_waits_until_it_is_settled(store: Store) -> None:
    one, two = notice(), notice("annotation:7", from_ms=NOW_MS, until_ms=NOW_MS + 5, cancelled={"a1": "cli:ann"})
    assert await store.deliver([one], most=10)
    assert await store.deliver([two], most=10)
    heard = await store.delivered(1)
    assert ([one], 1, False) == (heard.notices, heard.taken, heard.kept)
    await store.settle(1, {one.key: one}, [CUT], [])
    heard = await store.delivered(10)
    assert ([two], 1, True) == (heard.notices, heard.taken, heard.kept)
    assert await store.notices() == {one.key: one}
    assert await store.acts() == [CUT]
    await store.settle(1, {one.key: None}, [], [])
    assert (await store.notices(), await store.acts(), (await store.delivered(10)).taken) == ({}, [], 0)


async def test_a_full_inbox_takes_nothing_more(store: Store) -> None:
    assert await store.deliver([notice("a"), notice("b")], most=3)
    assert not await store.deliver([notice("c"), notice("d")], most=3)
    assert (await store.delivered(10)).taken == 2


async def test_an_entry_that_is_no_notice_is_taken_and_left_out(store: Store) -> None:
    if isinstance(store, MemoryStore):
        store._inbox.append(b"garbage")
    else:
        assert isinstance(store, RedisStore)
        await store._write([("RPUSH", store._keys.inbox, b"garbage")])
    await store.deliver([notice()], most=10)
    heard = await store.delivered(10)
    assert ([notice()], 2) == (heard.notices, heard.taken)
