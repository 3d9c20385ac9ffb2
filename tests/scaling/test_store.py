"""Targets in a store: what is written is read, under a lease; what a hand left there harms nobody."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tidegate.domain.errors import NotLeading
from tidegate.domain.scaling.rule import Course, Reason, Target
from tidegate.store.memory import MemoryStore
from tidegate.store.ports import Event, Store
from tidegate.store.redis import RedisStore
from tidegate.store.targets import decode_course

COURSE = Course(
    target=Target(desired=5, reason=Reason.OPERATOR, since_ms=20, why="an operator wants 5"),
    automatic=Target(desired=0, reason=Reason.IDLE, since_ms=10, why="no request for 10m"),
)


@pytest.fixture(params=["redis", "memory"])
async def store(request: pytest.FixtureRequest) -> AsyncIterator[Store]:
    if request.param == "memory":
        yield MemoryStore(lambda: 1_000)
        return
    store = RedisStore(request.getfixturevalue("redis_url"), timeout_seconds=10.0)
    yield store
    await store.close()


async def test_what_is_written_is_read_with_its_words(store: Store) -> None:
    assert await store.targets(["phi-3", "sdxl"]) == {}
    said = Event(at_ms=20, who="controller", what="scale:phi-3", before="2", after="5", why="because")
    await store.write_targets({"phi-3": COURSE}, [said])
    assert await store.targets(["phi-3", "sdxl"]) == {"phi-3": COURSE}
    assert await store.events(1) == [said]


async def test_who_does_not_lead_writes_neither_targets_nor_events(store: Store) -> None:
    lease = await store.take_lead("a", ttl_ms=60_000)
    assert lease is not None
    await store.resign(lease)
    with pytest.raises(NotLeading):
        await store.write_targets({"phi-3": COURSE}, [Event(at_ms=1, who="a", what="b")], lease=lease)
    assert await store.targets(["phi-3"]) == {}
    assert await store.events(5) == []


@pytest.mark.parametrize(
    ("reply", "desired"),
    [
        ({}, None),
        ({b"desired": b"many"}, None),
        ({b"desired": b"-1"}, None),
        ({b"desired": b"3"}, 3),
        ({b"desired": b"3", b"reason": b"\xff", b"since_ms": b"soon", b"automatic": b"x"}, 3),
    ],
    ids=["nothing", "word", "below zero", "a bare number", "garbage beside it"],
)
def test_what_is_no_number_is_no_target(reply: dict[bytes, bytes], desired: int | None) -> None:
    course = decode_course(reply)
    assert (None if course is None else (course.target.desired, course.automatic.desired)) == (
        None if desired is None else (desired, desired)
    )
