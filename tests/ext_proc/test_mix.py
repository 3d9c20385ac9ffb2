"""The mix of requests that each replica got, from ext_proc to the controller."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from controller.controller import Controller
from controller.mixes import entropies
from ext_proc.mix import MixBook
from tests.conftest import until
from tests.controller.world import TOPOLOGY, A, B, Clock, tick
from tidegate.domain.entropy import class_of
from tidegate.domain.request import RequestInfo
from tidegate.domain.routing import Api
from tidegate.store.memory import MemoryStore
from tidegate.store.redis import RedisStore

SHORT = RequestInfo(api=Api.CHAT, prompt_chars=40)
LONG = RequestInfo(api=Api.CHAT, prompt_chars=40_000)


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def book(clock):
    return MixBook(clock)


def send(book, address, info, times):
    for _ in range(times):
        book.dispatched("phi-3", address, info)


def test_requests_are_counted_by_replica_and_class(book):
    send(book, A, SHORT, 2)
    send(book, A, LONG, 1)
    send(book, B, LONG, 3)
    short, long = class_of(SHORT), class_of(LONG)
    assert book.counts() == {"phi-3": {A: {short: 2, long: 1}, B: {long: 3}}}


def test_a_request_counts_for_a_minute(book, clock):
    send(book, A, SHORT, 2)
    clock.at_ms += 30_000
    send(book, A, SHORT, 1)
    assert book.counts() == {"phi-3": {A: {class_of(SHORT): 3}}}
    clock.at_ms += 30_000
    assert book.counts() == {"phi-3": {A: {class_of(SHORT): 1}}}
    clock.at_ms += 60_000
    assert book.counts() == {}


def test_a_clock_that_is_set_back_forgets_and_counts_on(book, clock):
    send(book, A, SHORT, 2)
    clock.at_ms -= 600_000
    send(book, A, SHORT, 1)
    assert book.counts() == {"phi-3": {A: {class_of(SHORT): 1}}}


def test_parts_of_several_pickers_add_up_to_one_mix():
    told = entropies([{"phi-3": {A: {1: 10}}}, {"phi-3": {A: {2: 10}, B: {1: 19}}}])
    assert told == {("phi-3", A): pytest.approx(0.2)}


@pytest.fixture(params=["memory", "redis"])
async def store(request, clock):
    if request.param == "memory":
        yield MemoryStore(clock)
        return
    redis = RedisStore(request.getfixturevalue("redis_url"), prefix="mixes", timeout_seconds=60)
    yield redis
    await redis.close()


async def test_what_is_told_reads_as_it_was_and_garbage_is_left_out(store):
    await store.tell_mix("a", {"phi-3": {A: {5: 30}}}, ttl_ms=60_000)
    await store.tell_mix("b", {"phi-3": {A: {5: "x"}}}, ttl_ms=60_000)
    assert await store.mixes() == [{"phi-3": {A: {5: 30}}}]


async def test_the_mix_is_a_part_of_the_load_index(clock, book):
    store = MemoryStore(clock)
    send(book, A, SHORT, 10)
    send(book, A, LONG, 10)
    telling = asyncio.create_task(book.tell(store, "one"))
    try:
        await until(lambda: bool(store._mixes))
    finally:
        telling.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await telling
    await store.publish(tick(clock(), a=0.4, b=0.4), ttl_ms=3_000)
    controller = Controller(store, TOPOLOGY, clock=clock)
    await controller.look_at_mixes()
    await controller.tick()
    explain = (await store.explain(["phi-3"]))["phi-3"]
    assert explain[A]["load"] == {
        "latency": None,
        "vram": 0.4,
        "entropy": 0.2,
        "total": pytest.approx((0.35 * 0.4 + 0.2 * 0.2) / 0.55, abs=1e-4),
    }
    assert explain[B]["load"]["entropy"] is None
