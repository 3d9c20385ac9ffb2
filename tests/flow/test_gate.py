"""A request waits when no replica has room, and always gets an answer: a place, a refusal, or none is there to hear."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from ext_proc.flow.counts import Outcome
from ext_proc.flow.later import Later
from tests.conftest import until
from tests.ext_proc.parts import Answer, Picker, sample, topology
from tidegate.cli.report import gather
from tidegate.domain.flow.classes import Classes, RequestClass
from tidegate.domain.flow.settings import FlowSettings
from tidegate.domain.pick.settings import PickSettings
from tidegate.domain.routing import RouteMatch
from tidegate.domain.sample import Status
from tidegate.store.memory import MemoryStore

ONE, TWO = "10.0.0.1:8000", "10.0.0.2:8000"
PRIORITY = "request.headers['x-tidegate-priority']"


def body(**fields: Any) -> bytes:
    return json.dumps({"model": "phi-3", "messages": [{"role": "user", "content": "x"}], **fields}).encode()


def full(replicas: int = 1, **settings: Any) -> Picker:
    """Replicas of 10,000 KV tokens, all taken."""
    picker = Picker(topology(replicas), classes=Classes((GOLD,)))
    picker.gates.of("phi-3").tune(FlowSettings(**settings))
    crowd(picker, 1.0, replicas)
    return picker


GOLD = RequestClass("gold", RouteMatch(headers=(("x-tier", "gold"),)), weight=3.0)


def crowd(picker: Picker, used: float, replicas: int = 1, **fields: Any) -> None:
    picker.now_ms += 100
    for number in range(replicas):
        address = f"10.0.0.{number + 1}:8000"
        picker.sample(address, kv_used_ratio=used, kv_capacity_tokens=10_000, block_size=16, **fields)
    picker.gates.changed()


def waits(picker: Picker, **attributes: str) -> Later:
    reply = picker.reply(body(), **attributes)
    assert isinstance(reply, Later)
    return reply


def answered(reply: Later) -> Answer:
    assert reply.answer.done()
    return Answer.read(reply.answer.result())


async def test_a_request_without_room_asks_envoy_for_time_and_is_placed_when_there_is_room() -> None:
    picker = full(timeout_ms=30_000)
    reply = waits(picker)
    assert Answer.read(reply.first).response.override_message_timeout.ToMilliseconds() == 35_000
    crowd(picker, 0.99)
    assert not reply.answer.done()
    crowd(picker, 0.1)
    assert answered(reply).destinations == [ONE]
    assert not picker.gates.of("phi-3").busy


async def test_a_request_that_fits_elsewhere_goes_there_although_the_other_looks_idle() -> None:
    picker = Picker(topology(2))
    common = {"kv_capacity_tokens": 10_000, "block_size": 16}
    picker.sample(ONE, running=0, waiting=0, kv_used_ratio=0.98, **common)
    picker.sample(TWO, running=40, waiting=3, kv_used_ratio=0.3, **common)
    assert [picker.ask().destinations[0] for _ in range(5)] == [TWO] * 5


async def test_its_own_reservation_counts_before_a_sample_has_seen_it() -> None:
    picker = Picker(topology(1))
    picker.sample(ONE, kv_used_ratio=0.0, kv_capacity_tokens=10_000, block_size=16)
    replies = [picker.reply(body(max_tokens=200)) for _ in range(60)]
    at_once = sum(not isinstance(one, Later) for one in replies)
    assert 30 <= at_once <= 10_000 / 200


async def test_at_the_deadline_it_is_429_with_the_time_to_come_back() -> None:
    picker = full(timeout_ms=2000)
    reply = waits(picker)
    picker.now_ms += 1999
    picker.gates.changed()
    assert not reply.answer.done()
    picker.now_ms += 1
    picker.sample(ONE, kv_used_ratio=1.0, kv_capacity_tokens=10_000, block_size=16)
    picker.gates.changed()
    refused = answered(reply)
    assert (refused.status, refused.headers["x-tidegate-reason"]) == (429, "queue-timeout")
    assert int(refused.headers["retry-after"]) >= 1


async def test_a_full_queue_is_429_at_once_and_gives_way_to_the_urgent() -> None:
    picker = full(max_requests=2)
    old, new = waits(picker), waits(picker)
    refused = picker.answer(body())
    assert (refused.status, refused.headers["x-tidegate-reason"]) == (429, "saturated")
    assert int(refused.headers["retry-after"]) == 30
    urgent = waits(picker, **{PRIORITY: "high"})
    assert answered(new).headers["x-tidegate-reason"] == "saturated"
    crowd(picker, 0.1)
    assert [answered(one).status for one in (urgent, old)] == [None, None]


async def test_nobody_overtakes_those_who_wait_but_the_more_urgent() -> None:
    picker = full(1)
    waits(picker)
    picker.sample(ONE, kv_used_ratio=0.0, at_ms=picker.now_ms + 1)
    assert isinstance(picker.reply(body()), Later)
    assert not isinstance(picker.reply(body(), **{PRIORITY: "-1"}), Later)


async def test_where_no_replica_serves_any_more_all_who_wait_are_503_at_once() -> None:
    picker = full(1)
    replies = [waits(picker) for _ in range(3)]
    crowd(picker, 0.0, status=Status.DRAINING)
    assert [answered(one).status for one in replies] == [503] * 3


async def test_nobody_waits_on_a_stale_view() -> None:
    picker = full(1)
    reply = waits(picker)
    picker.now_ms += 3001
    assert picker.answer(body()).destinations == []
    picker.gates.changed()
    assert (answered(reply).cluster, answered(reply).destinations) == ("phi-3", [])


@pytest.mark.parametrize("status", [Status.DRAINING, Status.ASLEEP, Status.LOADING, Status.UNREACHABLE])
async def test_what_waits_never_goes_to_a_replica_that_does_not_serve(status: Status) -> None:
    picker = full(2)
    reply = waits(picker)
    picker.now_ms += 100
    picker.sample(ONE, kv_used_ratio=0.0, kv_capacity_tokens=10_000, block_size=16, status=status)
    picker.gates.changed()
    assert not reply.answer.done()
    picker.now_ms += 100
    picker.sample(TWO, kv_used_ratio=0.0, kv_capacity_tokens=10_000, block_size=16)
    picker.gates.changed()
    assert answered(reply).destinations == [TWO]


async def test_a_client_that_hangs_up_frees_its_place() -> None:
    picker = full(max_requests=1)
    first = waits(picker)
    first.answer.cancel()
    await until(lambda: not picker.gates.of("phi-3").busy)
    second = waits(picker)
    crowd(picker, 0.1)
    assert answered(second).destinations == [ONE]
    assert picker.gates.of("phi-3").counts.outcomes == {"gone": 1, "placed": 1}


async def test_the_urgent_pass_a_wait_that_holds_others_back() -> None:
    picker = Picker(topology(1))
    picker.view.cluster("phi-3").picker.tune(PickSettings(hold_seconds=0.2))
    picker.sample(ONE, waiting=50)
    assert isinstance(picker.reply(body()), Later)
    assert picker.answer(body(), **{PRIORITY: "high"}).destinations == [ONE]
    assert picker.answer(body(priority=-1)).destinations == [ONE]


async def test_classes_that_wait_share_by_weight() -> None:
    picker = full(max_requests=400)
    kinds = {"gold": {"request.headers['x-tier']": "gold"}, "default": {}}
    replies = [(kind, waits(picker, **attributes)) for _ in range(100) for kind, attributes in kinds.items()]
    crowd(picker, 0.0)
    placed = [kind for kind, one in replies if one.answer.done()]
    assert 20 <= len(placed) < 150
    assert placed.count("gold") / len(placed) == pytest.approx(0.75, abs=0.05)


async def test_stopping_lets_everybody_through() -> None:
    picker = full(2)
    replies = [waits(picker) for _ in range(3)]
    picker.gates.stop()
    assert [answered(one).cluster for one in replies] == ["phi-3"] * 3
    assert picker.answer(body()).cluster == "phi-3"


async def test_a_batch_window_places_a_burst_as_a_whole_longest_first() -> None:
    picker = Picker(topology(2))
    picker.sample(ONE)
    picker.sample(TWO)
    picker.gates.of("phi-3").tune(FlowSettings(batch_window_ms=10, batch_max_requests=4))
    sizes = (1_000, 40_000, 1_000, 30_000)
    texts = [letter * size for letter, size in zip("abcd", sizes, strict=True)]
    replies = [picker.reply(body(messages=[{"role": "user", "content": text}])) for text in texts]
    waiting = [one.answer.result() if isinstance(one, Later) else one for one in replies]
    firsts = [Answer.read(one).destinations[0] for one in waiting]
    assert firsts[1] != firsts[3]
    assert firsts[0] == firsts[2] == firsts[3]


async def test_a_batch_window_closes_by_itself() -> None:
    picker = Picker(topology(1))
    picker.sample(ONE)
    picker.gates.of("phi-3").tune(FlowSettings(batch_window_ms=10))
    reply = waits(picker)
    picker.now_ms += 10
    async with asyncio.timeout(60):
        assert Answer.read(await reply.answer).destinations == [ONE]


async def test_who_leaves_a_batch_window_is_placed_nowhere_and_the_others_are() -> None:
    picker = Picker(topology(1))
    picker.sample(ONE)
    gate = picker.gates.of("phi-3")
    gate.tune(FlowSettings(batch_window_ms=10))
    gone, stays = waits(picker), waits(picker)
    gone.answer.cancel()
    await asyncio.sleep(0)
    picker.now_ms += 10
    gate.changed()
    assert answered(stays).destinations == [ONE]
    assert not gate.busy
    assert gate.counts.outcomes == {Outcome.GONE: 1, Outcome.PLACED: 1}


async def test_a_window_that_is_switched_off_still_places_what_it_holds() -> None:
    picker = Picker(topology(1))
    picker.sample(ONE)
    gate = picker.gates.of("phi-3")
    gate.tune(FlowSettings(batch_window_ms=10))
    held = waits(picker)
    gate.tune(FlowSettings())
    assert picker.answer(body()).destinations == [ONE]
    picker.now_ms += 10
    gate.changed()
    assert answered(held).destinations == [ONE]


async def test_a_fault_in_the_answer_that_fills_a_window_leaves_nobody_behind() -> None:
    picker = Picker(topology(1))
    picker.sample(ONE)
    picker.gates.of("phi-3").tune(FlowSettings(batch_window_ms=10, batch_max_requests=2))
    first = waits(picker)
    broken, picker.recent.sent = picker.recent.sent, None  # type: ignore[method-assign,assignment]
    with pytest.raises(TypeError):
        picker.reply(body(messages=[{"role": "user", "content": "longer than the other one"}]))
    picker.recent.sent = broken  # type: ignore[method-assign]
    with pytest.raises(TypeError):
        first.answer.result()
    assert not picker.gates.of("phi-3").busy


async def test_who_waits_is_looked_at_while_the_clock_runs() -> None:
    picker = full(timeout_ms=1000)
    task = asyncio.create_task(picker.gates.run())
    reply = waits(picker)
    picker.now_ms += 1000
    async with asyncio.timeout(60):
        assert Answer.read(await reply.answer).status == 429
    task.cancel()


async def test_a_fault_in_one_answer_reaches_its_own_stream_alone() -> None:
    picker = full(1)
    replies = [waits(picker) for _ in range(2)]
    broken, picker.recent.sent = picker.recent.sent, None  # type: ignore[method-assign,assignment]
    crowd(picker, 0.1)
    picker.recent.sent = broken  # type: ignore[method-assign]
    for one in replies:
        with pytest.raises(TypeError):
            one.answer.result()


async def test_the_metrics_page_shows_queue_waits_and_outcomes() -> None:
    picker = full(max_requests=1)
    reply, refused = waits(picker), picker.answer(body())
    assert refused.status == 429
    read = picker.registry.get_sample_value
    labels = {"cluster": "phi-3", "priority": "normal", "class": "default"}
    assert read("tidegate_queue_requests", labels) == 1
    assert read("tidegate_queue_bytes", {"cluster": "phi-3"}) == len(body())
    crowd(picker, 0.1)
    assert answered(reply).status is None
    assert read("tidegate_queue_requests", labels) == 0
    assert read("tidegate_queue_outcomes_total", {"cluster": "phi-3", "outcome": "saturated"}) == 1
    assert read("tidegate_queue_served_total", labels) == 1
    assert read("tidegate_queue_wait_seconds_count", {"cluster": "phi-3", "priority": "normal"}) == 1


async def test_the_report_of_a_queue_says_who_waits() -> None:
    picker = full(timeout_ms=30_000)
    waits(picker)
    waits(picker, **{PRIORITY: "low", "request.headers['x-tier']": "gold"})
    picker.now_ms += 40
    assert picker.gates.report(picker.now_ms) == {
        "phi-3": {
            "waiting": 2,
            "bytes": 2 * len(body()),
            "oldest_ms": 40,
            "drain_per_second": None,
            "priorities": {"normal": 1, "low": 1},
            "classes": {"default": 1, "gold": 1},
        }
    }


async def test_a_weighted_cluster_never_queues() -> None:
    picker = Picker()
    picker.view.sampled([sample("10.0.1.1:8000", cluster="qwen", kv_used_ratio=1.0, kv_capacity_tokens=1)], 0)
    assert picker.ask("qwen2.5-72b").destinations == []


async def test_while_urgent_requests_come_others_leave_them_room() -> None:
    picker = Picker(topology(1))
    crowd(picker, 0.92)
    assert not isinstance(picker.reply(body()), Later)
    assert not isinstance(picker.reply(body(), **{PRIORITY: "high"}), Later)
    crowd(picker, 0.92)
    assert isinstance(picker.reply(body()), Later)
    assert not isinstance(picker.reply(body(), **{PRIORITY: "high"}), Later)
    picker.now_ms += 60_000
    crowd(picker, 0.92)
    assert not isinstance(picker.reply(body()), Later)


async def test_status_adds_up_what_waits_in_every_ext_proc() -> None:
    picker = full(timeout_ms=30_000)
    waits(picker)
    waits(picker, **{PRIORITY: "low"})
    store = MemoryStore(lambda: picker.now_ms)
    for instance in ("a", "b"):
        told = {"queues": picker.gates.report(picker.now_ms)}
        await store.beat("ext_proc", instance, told, ttl_ms=3000)
    queue = (await gather(store, picker.topology, picker.now_ms))["queues"]["phi-3"]
    assert (queue["waiting"], queue["bytes"]) == (4, 4 * len(body()))
    assert queue["priorities"] == {"normal": 2, "low": 2}
    assert queue["classes"] == {"default": 4}
