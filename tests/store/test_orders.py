"""Changes of operators' fields with their events, asked of the store on a real Redis and of the one in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import pytest

from tidegate.domain.errors import StoreRefused
from tidegate.domain.operators import FieldChange
from tidegate.store.memory import MemoryStore
from tidegate.store.ports import Event, Store
from tidegate.store.redis import RedisStore

KEY, A, B = "weight:phi-3", "10.0.0.5:8000", "10.0.0.6:8000"
SAID = Event(at_ms=7, who="cli:ann@box", what=f"{KEY} {A}", before="", after="5")


@pytest.fixture(params=["redis", "memory"])
async def store(request: pytest.FixtureRequest) -> AsyncIterator[Store]:
    if request.param == "memory":
        yield MemoryStore(lambda: 1_700_000_000_000)
        return
    redis = RedisStore(request.getfixturevalue("redis_url"), timeout_seconds=60.0)
    yield redis
    await redis.close()


async def weights(store: Store) -> dict[str, str]:
    return dict((await store.operator_keys(["phi-3"], [])).weights.get("phi-3", {}))


async def test_changes_and_their_events_arrive_together(store: Store) -> None:
    changes = [FieldChange(key=KEY, field=A, value="5"), FieldChange(key=KEY, field=B, value=None)]
    assert await store.change_fields(changes, [SAID]) == [True, False]
    assert await weights(store) == {A: "5"}
    assert await store.events(9) == [SAID]
    assert await store.change_fields([FieldChange(key=KEY, field=A, value=None)], []) == [True]
    assert await weights(store) == {}


async def test_a_change_that_expects_a_text_does_nothing_to_another(store: Store) -> None:
    await store.set_field(KEY, A, "5")
    swap = FieldChange(key=KEY, field=A, value="6", only_if="5")
    assert await store.change_fields([swap], []) == [True]
    assert await store.change_fields([swap], []) == [False]
    assert await store.change_fields([FieldChange(key=KEY, field=A, value=None, only_if="5")], []) == [False]
    assert await weights(store) == {A: "6"}
    assert await store.change_fields([FieldChange(key=KEY, field=A, value=None, only_if="6")], []) == [True]
    assert await weights(store) == {}


async def test_events_after_a_mark_come_once(store: Store) -> None:
    await store.change_fields([], [SAID])
    none, mark = await store.events_after("")
    assert none == []
    await store.change_fields([], [SAID, SAID])
    fresh, later = await store.events_after(mark)
    assert fresh == [SAID, SAID]
    assert await store.events_after(later) == ([], later)


async def test_what_the_controller_found_good_is_read_with_the_orders(store: Store) -> None:
    await store.change_fields([FieldChange(key="tuned", field="tune envoy.retries", value="1")], [])
    assert (await store.operator_keys(["phi-3"], [])).tuned == {"tune envoy.retries": "1"}


@pytest.mark.parametrize("only_if", [None, "5"])
async def test_a_key_of_another_type_is_named(redis_url: str, redis_cli: Callable[..., str], only_if: str) -> None:
    redis_cli("SET", f"tidegate:{KEY}", "x")
    store = RedisStore(redis_url, timeout_seconds=60.0)
    with pytest.raises(StoreRefused, match=f"tidegate:{KEY} in Redis is of another type"):
        await store.change_fields([FieldChange(key=KEY, field=A, value="6", only_if=only_if)], [])
    await store.close()
