"""One controller leads, the others stand by, and what wakes up too late writes nothing."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time

import pytest
import redis.asyncio as aioredis

from controller.controller import LEASE_MS, Controller
from tests.conftest import until
from tests.controller.world import TOPOLOGY, A, B, Clock, tick
from tidegate.domain.errors import NotLeading, StoreRefused
from tidegate.domain.lease import Lease, read_lease
from tidegate.store.memory import MemoryStore
from tidegate.store.ports import ClusterDecision
from tidegate.store.redis import RedisStore

TTL = 3_000
LONG_MS = 600_000
"""A lease that outlives every stop of a busy machine: for whoever is to lead to the end of a test."""


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture(params=["memory", "redis"])
async def store(request, clock):
    if request.param == "memory":
        yield MemoryStore(clock)
        return
    url = request.getfixturevalue("redis_url")
    redis = RedisStore(url, prefix=f"lease-{time.monotonic_ns()}", timeout_seconds=60)
    yield redis
    await redis.close()


@pytest.mark.parametrize("text", ["", "5", "5 ", "x a", " a", "-1 a", "1234567890123456789 a"])
def test_what_is_no_lease_reads_as_none(text):
    assert read_lease(text) is None


def test_a_lease_reads_as_it_was_written():
    assert read_lease(Lease("gpu-1:47 11", 12).text) == Lease("gpu-1:47 11", 12)


async def test_one_has_the_lead_until_it_resigns(store):
    first = await store.take_lead("a", ttl_ms=60_000)
    assert await store.take_lead("b", ttl_ms=60_000) is None
    assert await store.leader() == first
    await store.resign(first)
    assert await store.leader() is None
    second = await store.take_lead("b", ttl_ms=60_000)
    assert second.token > first.token or second.instance != first.instance
    await store.resign(first)
    assert await store.leader() == second


async def test_a_write_under_another_lease_is_refused_and_changes_nothing(store):
    lead = await store.take_lead("a", ttl_ms=60_000)
    await store.write_decisions([ClusterDecision("c", {A: 1}, {})], {}, [], lease=lead)
    for late in (Lease("a", lead.token - 1), Lease("b", lead.token)):
        with pytest.raises(NotLeading):
            await store.write_decisions([ClusterDecision("c", {A: 2}, {})], {"x": "y"}, [], lease=late)
        with pytest.raises(NotLeading):
            await store.keep_lead(late, ttl_ms=60_000)
    assert await store.effective(["c"]) == {"c": {A: 1}}
    assert await store.rejected() == {}


async def test_extending_while_a_write_is_under_way_disturbs_neither(store):
    lead = await store.take_lead("a", ttl_ms=60_000)
    decision = [ClusterDecision("c", {A: 3}, {})]
    await asyncio.gather(
        *(store.keep_lead(lead, ttl_ms=60_000) for _ in range(2)),
        *(store.write_decisions(decision, {}, [], lease=lead) for _ in range(2)),
    )
    assert await store.effective(["c"]) == {"c": {A: 3}}


async def test_who_stands_by_writes_nothing_and_goes_on_from_what_was_published(clock):
    store = MemoryStore(clock)
    leader, heir = (Controller(store, TOPOLOGY, clock=clock, instance=name) for name in ("a", "b"))
    await store.publish(tick(clock(), a=0.4, b=0.75), ttl_ms=TTL)
    assert await leader.tick() == 1
    assert (await heir.tick(), heir.leads, await heir.orders()) == (0, False, 0)
    clock.at_ms += 60_000
    await heir.tick()
    assert heir.leads
    assert (await store.effective(["phi-3"]))["phi-3"] == {A: 600, B: 250}
    await leader.tick()
    assert not leader.leads
    assert [e.what for e in await store.events(100)].count(f"status:phi-3 {A}") == 2


async def test_a_leader_that_was_paused_finds_out_as_it_writes(clock):
    store = MemoryStore(clock)
    paused, heir = (Controller(store, TOPOLOGY, clock=clock, instance=name) for name in ("a", "b"))
    await paused.tick()
    clock.at_ms += 60_000
    await heir.tick()
    await store.set_field("weight:phi-3", A, "7")
    paused._renew_at = time.monotonic() + 60
    await paused.orders()
    assert (await store.effective(["phi-3"]))["phi-3"][A] != 7
    assert not paused.leads
    await heir.orders()
    assert (await store.effective(["phi-3"]))["phi-3"][A] == 7


async def test_the_log_tells_when_another_leads_and_not_that_the_only_one_began(clock):
    store = MemoryStore(clock)
    first, second = (Controller(store, TOPOLOGY, clock=clock, instance=name) for name in ("a", "b"))
    for one in (first, second):
        await one.tick()
    assert [e for e in await store.events(100) if e.what == "leader"] == []
    clock.at_ms += 60_000
    for _ in range(2):
        await second.tick()
    told = [(e.who, e.before, e.after) for e in await store.events(100) if e.what == "leader"]
    assert told == [("controller", "a", "b")]


async def test_an_end_on_purpose_hands_the_lead_over_at_once(clock):
    store = MemoryStore(clock)
    first, second = (Controller(store, TOPOLOGY, clock=clock, instance=name) for name in ("a", "b"))
    await first.tick()
    await first.resign()
    await second.tick()
    assert second.leads


@pytest.mark.parametrize(
    "typed",
    [("SET", "me"), ("SET", "99999999999999 ghost"), ("SET", "5 ghost", "EX", "3600"), ("RPUSH", "x")],
    ids=["no-lease", "without-end", "with-a-late-end", "wrong-type"],
)
async def test_what_a_hand_wrote_as_the_leader_ends_when_a_lease_would(own_redis, shared, typed):
    controller = Controller(shared, TOPOLOGY, instance="a")
    await controller.tick()
    async with aioredis.Redis.from_url(own_redis.url) as hand:
        await hand.delete("tidegate:leader")
        await hand.execute_command(typed[0], "tidegate:leader", *typed[1:])

    async def leads():
        with contextlib.suppress(StoreRefused):  # the loop says so, and tries again
            controller._renew_at = 0.0
            await controller.tick()
            leader = await shared.leader()
            return controller.leads and leader is not None and leader.instance == "a"
        return False

    await until(leads, what="the lead of who is there")


# --- processes ----------------------------------------------------------------------------------------------

CHILD = """
import asyncio, sys
from controller import controller
from controller.loop import run
from tests.controller.world import TOPOLOGY
from tidegate.store.redis import RedisStore
controller.LEASE_MS = int(sys.argv[3])
asyncio.run(run(RedisStore(sys.argv[1]), TOPOLOGY, instance=sys.argv[2]))
"""


@pytest.fixture
def children(own_redis):
    started = {}

    def start(name, lease_ms):
        started[name] = subprocess.Popen([sys.executable, "-c", CHILD, own_redis.url, name, str(lease_ms)])
        return started[name]

    yield start
    for child in started.values():
        child.kill()
        child.wait()


@pytest.fixture
async def shared(own_redis):
    store = RedisStore(own_redis.url, timeout_seconds=60)
    yield store
    await store.close()


async def led_by(store, name):
    async def leads():
        leader = await store.leader()
        return leader is not None and leader.instance == name

    await until(leads)


async def standing_by(store, name):
    async def stands():
        return (await store.present()).get("controller", {}).get(name, {}).get("leads") is False

    await until(stands)


async def pinned(store, value):
    async def applied():
        return (await store.effective(["phi-3"]))["phi-3"].get(A) == value

    await store.set_field("weight:phi-3", A, str(value))
    await until(applied)


async def test_a_killed_leader_is_followed_and_orders_act_again(children, shared):
    first = children("a", LEASE_MS)
    await led_by(shared, "a")
    children("b", LONG_MS)
    await standing_by(shared, "b")
    await pinned(shared, 5)
    first.kill()
    await led_by(shared, "b")
    await pinned(shared, 6)


async def test_a_leader_that_was_stopped_and_goes_on_writes_nothing(children, shared):
    first = children("a", LEASE_MS)
    await led_by(shared, "a")
    children("b", LONG_MS)
    await standing_by(shared, "b")
    os.kill(first.pid, signal.SIGSTOP)
    await led_by(shared, "b")
    lead = await shared.leader()
    await pinned(shared, 8)
    os.kill(first.pid, signal.SIGCONT)
    await standing_by(shared, "a")
    await pinned(shared, 9)
    assert await shared.leader() == lead
    log = [(event.what, event.after) for event in await shared.events(1000)]
    assert log.count((f"weight:phi-3 {A}", "9")) == 1
