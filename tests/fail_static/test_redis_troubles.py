"""Whatever befalls Redis, requests are served as before, `status` says what is the matter, and nothing is restarted."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import httpx
import pytest

from tests.conftest import wait_until
from tests.fail_static.conftest import SAMPLE_SECONDS, Traffic, World, paused, resumed
from tests.ports import take_free_port
from tests.up.cluster import chat

pytestmark = [pytest.mark.envoy, pytest.mark.redis]


@contextmanager
def silent(world: World) -> Iterator[str]:
    paused(world.redis)
    try:
        yield "does not answer"
    finally:
        resumed(world.redis)


@contextmanager
def clients_paused(world: World) -> Iterator[str]:
    """The pause ends by itself: CLIENT UNPAUSE would wait for it too."""
    pause(world)
    yield "does not answer"


def pause(world: World) -> None:
    """Let all clients wait for 6 s, once those of a pause before are over."""
    world.redis.cli("CLIENT", "PAUSE", "6000", "ALL")


@contextmanager
def password_changed(world: World) -> Iterator[str]:
    world.redis.cli("CONFIG", "SET", "requirepass", "other")
    world.redis.cli("-a", "other", "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    world.redis.cli("-a", "other", "CLIENT", "KILL", "TYPE", "pubsub")
    try:
        yield "needs a password"
    finally:
        world.redis.cli("-a", "other", "CONFIG", "SET", "requirepass", "")


@contextmanager
def disk_full(world: World) -> Iterator[str]:
    """A save that cannot be written; its folder is the only one that Redis may not leave."""
    cli = world.redis.cli
    cli("CONFIG", "SET", "dbfilename", "no-such-folder.rdb")
    (world.folder / "no-such-folder.rdb").mkdir()
    cli("CONFIG", "SET", "save", "3600 1")
    cli("BGSAVE")
    wait_until(lambda: "rdb_last_bgsave_status:err" in cli("INFO", "persistence"), what="the save failing")
    try:
        yield "MISCONF"
    finally:
        (world.folder / "no-such-folder.rdb").rmdir()
        cli("CONFIG", "SET", "save", "")
        cli("BGSAVE")
        wait_until(lambda: "rdb_last_bgsave_status:ok" in cli("INFO", "persistence"), what="the save succeeding")


@contextmanager
def gone(world: World) -> Iterator[str]:
    """Killed, and started again empty."""
    world.redis.stop()
    try:
        yield "cannot be reached"
    finally:
        world.redis.start()


@contextmanager
def demoted(world: World) -> Iterator[str]:
    """A replica whose master is away, later promoted."""
    world.redis.cli("REPLICAOF", "127.0.0.1", str(take_free_port()))
    try:
        yield "read only replica"
    finally:
        world.redis.cli("REPLICAOF", "NO", "ONE")


TROUBLES = [silent, clients_paused, password_changed, disk_full, gone, demoted]


@pytest.mark.parametrize("trouble", TROUBLES, ids=lambda one: one.__name__)
def test_traffic_goes_on_status_is_true_and_all_recovers(
    world: World, traffic: Traffic, trouble: Callable[[World], contextmanager[str]]
) -> None:
    pids, before = world.pids(), {a: e["weight"] for a, e in world.replicas().items()}
    with trouble(world) as said:
        # A pause may be over before a busy machine has looked.
        again = partial(pause, world) if trouble is clients_paused else bool
        wait_until(lambda: said in world.trouble() or again(), what=f"status saying {said}")
        stale_at = time.monotonic() + SAMPLE_SECONDS + 0.5
        wait_until(lambda: time.monotonic() > stale_at, what="every sample being stale")
        traffic.go_on()
    wait_until(world.is_whole, what="everything being well again")
    traffic.go_on()
    assert traffic.failures() == {}
    assert world.pids() == pids
    assert set(world.replicas()) == set(before)


def test_an_emptied_redis_changes_no_routing_and_loses_no_order(world: World, traffic: Traffic) -> None:
    pinned, drained = world.addresses[2], world.addresses[0]
    try:
        orders_outlive_an_emptied_redis(world, traffic, pinned, drained)
    finally:
        world.redis.cli("DEL", "tidegate:weight:joined", "tidegate:drain:filed")
    wait_until(world.is_whole, what="everything being well again")
    assert traffic.failures() == {}


def orders_outlive_an_emptied_redis(world: World, traffic: Traffic, pinned: str, drained: str) -> None:
    world.redis.cli("HSET", "tidegate:weight:joined", pinned, "0")
    world.redis.cli("HSET", "tidegate:drain:filed", drained, "fan is broken")
    wait_until(lambda: world.replicas()[pinned]["weight"] == world.replicas()[drained]["weight"] == 0, what="orders")
    world.redis.cli("FLUSHALL")
    traffic.go_on(50)
    wait_until(lambda: world.replicas()[drained]["drained"] == "fan is broken", what="orders in force again")
    assert world.redis.cli("HGET", "tidegate:weight:joined", pinned) == "0"
    assert {a: e["weight"] == 0 for a, e in world.replicas().items()} == {
        a: a in {pinned, drained} for a in world.addresses
    }


def test_replicas_whose_agent_is_gone_keep_their_weight_and_are_stale(world: World, traffic: Traffic) -> None:
    joined = world.addresses[2:]
    world.kill_agent()
    wait_until(lambda: all(world.replicas()[address]["stale"] for address in joined), what="stale replicas")
    before = {address: weight_of(world, address) for address in joined}
    traffic.go_on(50)
    world.redis.cli("FLUSHALL")
    traffic.go_on(50)
    # The index is back before weights are.
    wait_until(
        lambda: all(weight_of(world, address) is not None for address in joined), what="weights of every replica"
    )
    assert {address: weight_of(world, address) for address in joined} == before
    old = world.up.kill("xds")
    wait_until(lambda: world.pids().get("xds") not in {None, old}, what="xds started again")
    wait_until(lambda: world.report()["envoys"], what="Envoy served again")
    traffic.go_on(50)
    assert {address: weight_of(world, address) for address in joined} == before
    world.start_agent()
    wait_until(world.is_whole, what="everything being well again")
    assert traffic.failures() == {}


def weight_of(world: World, address: str) -> int | None:
    weight: int | None = world.replicas().get(address, {}).get("weight")
    return weight


def test_services_that_start_again_while_redis_is_away_take_nothing_from_envoy(world: World, traffic: Traffic) -> None:
    world.redis.stop()
    old = world.up.kill("xds")
    wait_until(lambda: world.pids().get("xds") not in {None, old}, what="xds started again")
    late = time.monotonic() + 5
    wait_until(lambda: time.monotonic() > late, what="the time after which the file alone would be served")
    traffic.go_on(50)
    world.redis.start()
    wait_until(world.is_whole, what="everything being well again")
    traffic.go_on()
    assert traffic.failures() == {}


def test_while_ext_proc_hangs_requests_reach_their_model_by_envoy_alone(world: World, traffic: Traffic) -> None:
    """Who asked ext_proc as it fell silent is refused; nobody after that."""
    pid = world.pids()["ext_proc"]
    os.kill(pid, signal.SIGSTOP)
    try:
        wait_until(lambda: answered(world, "filed") and answered(world, "joined"), what="requests served")
        traffic.go_on()
    finally:
        os.kill(pid, signal.SIGCONT)
    traffic.go_on(50)
    assert set(traffic.failures()) <= {"503"}
    assert all(load.statuses["503"] <= load.threads for load in traffic.loads)


def answered(world: World, model: str) -> bool:
    """Whether a request of its own is answered; one that ext_proc keeps waiting is refused by Envoy within seconds."""
    answer = httpx.post(f"{world.up.gateway}/v1/chat/completions", json=chat(model), timeout=60)
    return answer.status_code == 200
