"""What the pages say of the fleet, the lead, picks, ACKs, Redis and first bytes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from prometheus_client import CollectorRegistry

from controller import loop
from ext_proc.fleet_metrics import FleetMetrics
from outcomes.book import Book
from outcomes.page import Page
from outcomes.server import AccessLogs
from tests.conftest import until
from tests.ext_proc.parts import Picker, sample, topology
from tests.outcomes.entries import outcome
from tests.ports import take_free_port
from tidegate.domain.errors import StoreUnavailable
from tidegate.domain.outcomes.ending import Ending
from tidegate.domain.sample import NodeSample, NodeTick
from tidegate.runtime import now_ms
from tidegate.store.memory import MemoryStore
from tidegate.store.redis import RedisStore
from tidegate.store.stats import StoreMetrics
from xds_server.metrics import AckTimes, XdsMetrics
from xds_server.type_urls import SHORT_NAMES

ONE, TWO = "10.0.0.1:8000", "10.0.0.2:8000"
PLACE = {"cluster": "phi-3", "replica": ONE}


@asynccontextmanager
async def controller(store: MemoryStore, instance: str) -> AsyncIterator[CollectorRegistry]:
    registry = CollectorRegistry()
    running = loop.run(store, topology(), tick_ms=20, sample_ttl_ms=60_000, registry=registry, instance=instance)
    task = asyncio.create_task(running)
    try:
        yield registry
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_the_leader_shows_the_fleet_and_nobody_else() -> None:
    started = now_ms()
    store = MemoryStore(lambda: started)  # where no time passes, no lease ends, however busy the machine
    node = NodeSample(node="n1", sampled_at_ms=now_ms(), seq=1, nvml="no_library", gpus={})
    seen = sample(ONE, at_ms=now_ms(), running=2, waiting=3, kv_used_ratio=0.5)
    await store.publish(NodeTick(node=node, endpoints=(seen,)), ttl_ms=60_000)
    async with controller(store, "a") as first:
        await until(lambda: first.get_sample_value("tidegate_replica_waiting_requests", PLACE) == 3, what="the fleet")
        async with controller(store, "b") as second:

            async def stands_by() -> bool:
                return "b" in (await store.present()).get("controller", {})

            await until(stands_by, what="a second controller")
            value = first.get_sample_value
            assert (value("tidegate_controller_leads"), second.get_sample_value("tidegate_controller_leads")) == (1, 0)
            assert value("tidegate_replica_load_part_ratio", {**PLACE, "part": "vram"}) == 0.5
            assert value("tidegate_replica_kv_used_ratio", PLACE) == 0.5
            assert (value("tidegate_replica_weight_permille", PLACE) or 0) > 0
            by_status = {s: value("tidegate_replicas", {"cluster": "phi-3", "status": s}) for s in ("ready", "unknown")}
            assert by_status == {"ready": 1, "unknown": 1}
            assert second.get_sample_value("tidegate_replica_weight_permille", PLACE) is None
            since = value("tidegate_controller_lead_since_seconds")
            assert since is not None
            assert abs(since - now_ms() / 1000) < 60


def test_ext_proc_shows_what_it_sent_where_and_what_it_expected() -> None:
    picker = Picker()
    FleetMetrics(picker.registry, picker.view, lambda: picker.now_ms)
    for address in (ONE, TWO):
        picker.sample(address)
    for _ in range(3):
        picker.ask()
    picker.now_ms += 500
    value = picker.registry.get_sample_value
    places = [{"cluster": "phi-3", "replica": address} for address in (ONE, TWO)]
    assert sum(value("tidegate_ext_proc_picks_total", place) or 0 for place in places) == 3
    assert sum(value("tidegate_ext_proc_pending_requests", place) or 0 for place in places) == 3
    assert value("tidegate_ext_proc_sample_age_seconds", PLACE) == 0.5
    assert value("tidegate_ext_proc_active_replicas", {"cluster": "phi-3"}) == 2
    assert value("tidegate_ext_proc_expected_first_token_seconds_count", {"cluster": "phi-3"}) == 3
    picker.view.left([("phi-3", ONE)])
    assert value("tidegate_ext_proc_picks_total", PLACE) is None


def test_an_ack_is_timed_from_the_push_of_its_version_and_settles_those_before() -> None:
    registry, now = CollectorRegistry(), [0.0]
    eds = next(url for url, short in SHORT_NAMES.items() if short == "eds")
    times = AckTimes(XdsMetrics(registry), lambda: now[0])
    for version in ("1", "2", "3"):
        times.saw("push", eds, version)
        now[0] += 1
    times.saw("ack", eds, "2")
    times.saw("ack", eds, "1")
    times.saw("nack", eds, "some words")
    assert registry.get_sample_value("tidegate_xds_ack_seconds_count", {"type": "eds"}) == 1
    assert registry.get_sample_value("tidegate_xds_ack_seconds_sum", {"type": "eds"}) == 2
    times.saw("ack", eds, "3")
    assert registry.get_sample_value("tidegate_xds_ack_seconds_count", {"type": "eds"}) == 2


@pytest.mark.redis
async def test_round_trips_to_redis_are_timed_by_command_and_failures_counted(redis_url: str) -> None:
    registry, gone = CollectorRegistry(), CollectorRegistry()
    store = RedisStore(redis_url, timeout_seconds=60)
    nowhere = RedisStore(f"redis://127.0.0.1:{take_free_port()}/0", timeout_seconds=60)
    StoreMetrics(registry, store)
    StoreMetrics(gone, nowhere)
    try:
        await store.ping()
        await store.effective(["phi-3"])
        with pytest.raises(StoreUnavailable):
            await nowhere.ping()
    finally:
        await store.close()
        await nowhere.close()
    counts = [
        registry.get_sample_value("tidegate_store_round_trip_seconds_count", {"command": command})
        for command in ("SET", "HGETALL")
    ]
    assert counts == [1, 1]
    failures = [
        one.get_sample_value("tidegate_store_failures_total", {"kind": "unavailable"}) for one in (registry, gone)
    ]
    assert failures == [0, 1]


def test_outcomes_has_histograms_of_what_was_served() -> None:
    registry, book = CollectorRegistry(), Book(lambda: 0)
    Page(registry, book, AccessLogs(book.add), {}, dict, lambda: 0)
    for one in (outcome(), outcome(ttfb_ms=3_000.0), outcome(Ending.FAULT)):
        book.add(one)
    counted = [
        registry.get_sample_value("tidegate_outcomes_first_byte_seconds_bucket", {"cluster": "chat", "le": bound})
        for bound in ("0.01", "0.025", "2.5", "+Inf")
    ]
    assert counted == [0, 1, 1, 2]
    assert registry.get_sample_value("tidegate_outcomes_last_byte_seconds_count", {"cluster": "chat"}) == 2
