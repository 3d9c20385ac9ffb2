"""Ticks of one controller on the store in memory."""

from __future__ import annotations

import asyncio

import pytest

from controller.controller import Controller
from tests.conftest import until
from tests.controller.world import TOPOLOGY, A, B, Clock, tick
from tidegate.domain.errors import StoreUnavailable
from tidegate.domain.membership import GRACE_MS, MOST_STEP_MS
from tidegate.domain.sample import Status
from tidegate.store.memory import MemoryStore

TTL = 3_000


@pytest.fixture
def clock():
    return Clock()


class CountingStore(MemoryStore):
    """Counts writes."""

    writes = 0

    async def write_decisions(self, decisions, rejected, events, *, lease=None):
        await super().write_decisions(decisions, rejected, events, lease=lease)
        self.writes += 1


@pytest.fixture
def store(clock):
    return CountingStore(clock)


@pytest.fixture
def controller(store, clock):
    return Controller(store, TOPOLOGY, clock=clock)


async def weights(store):
    return (await store.effective(["phi-3"]))["phi-3"]


async def told(store):
    return [(e.what, e.before, e.after) for e in await store.events(100)]


async def test_weights_follow_samples(store, controller, clock):
    await store.publish(tick(clock(), a=0.4, b=0.75), ttl_ms=TTL)
    assert await controller.tick() == 1
    assert await weights(store) == {A: 600, B: 250}
    explain = (await store.explain(["phi-3"]))["phi-3"]
    assert explain[A]["load"] == {"latency": None, "vram": 0.4, "entropy": None, "total": 0.4}
    assert explain[A]["status"] == "ready"


async def test_without_agents_every_replica_of_the_file_gets_traffic(store, controller):
    await controller.tick()
    assert await weights(store) == {A: 990, B: 990}


async def test_pin_is_honoured_cleared_and_logged(store, controller, clock):
    await store.publish(tick(clock(), a=0.4, b=0.75), ttl_ms=TTL)
    await store.set_field("weight:phi-3", A, "100")
    await controller.tick()
    assert (await weights(store))[A] == 100
    await store.clear_field("weight:phi-3", A)
    await controller.tick()
    assert (await weights(store))[A] == 600
    events = await told(store)
    assert (f"weight:phi-3 {A}", "", "100") in events
    assert (f"weight:phi-3 {A}", "100", "") in events


async def test_banana_changes_nothing_and_is_explained_once(store, controller, clock):
    await store.publish(tick(clock(), a=0.4, b=0.75), ttl_ms=TTL)
    await controller.tick()
    await store.set_field("weight:phi-3", A, "banana")
    await controller.tick()
    await controller.tick()
    assert await weights(store) == {A: 600, B: 250}
    assert "banana" in (await store.rejected())[f"weight:phi-3 {A}"]
    assert [what for what, *_ in await told(store)].count(f"rejected weight:phi-3 {A}") == 1
    await store.clear_field("weight:phi-3", A)
    await controller.tick()
    assert await store.rejected() == {}


async def test_last_good_pin_survives_a_bad_value_and_a_restart(store, controller, clock):
    await store.set_field("weight:phi-3", A, "300")
    await controller.tick()
    await store.set_field("weight:phi-3", A, "banana")
    await controller.resign()
    await Controller(store, TOPOLOGY, clock=clock).tick()
    assert (await weights(store))[A] == 300
    assert "last good value 300" in (await store.rejected())[f"weight:phi-3 {A}"]


async def test_drain_ends_traffic_and_undrain_returns_it_by_a_ramp(store, controller, clock):
    await store.publish(tick(clock(), a=0.4, b=0.75), ttl_ms=TTL)
    await store.set_field("drain:phi-3", A, "disk")
    await controller.tick()
    assert (await weights(store))[A] == 0
    await store.clear_field("drain:phi-3", A)
    await controller.tick()
    assert (await weights(store))[A] == 60
    for step in range(1, 61):
        clock.at_ms += 250
        await store.publish(tick(clock(), a=0.4, b=0.75, seq=step), ttl_ms=TTL)
        await controller.tick()
    assert (await weights(store))[A] == pytest.approx(600, rel=0.02)


async def test_tunes_of_the_cluster_act_at_the_next_look(store, controller, clock):
    await store.publish(tick(clock(), a=0.0, b=0.75), ttl_ms=TTL)
    await store.set_field("tune", "weight.max", "0.5")
    await controller.tick()
    assert await weights(store) == {A: 500, B: 250}
    await store.set_field("tune:phi-3", "weight.max", "0.3")
    await controller.tick()
    assert (await weights(store))[A] == 300


async def test_unreachable_replica_weighs_nothing_and_is_logged(store, controller, clock):
    await store.publish(tick(clock(), a=0.4, b=0.75), ttl_ms=TTL)
    await controller.tick()
    await store.publish(tick(clock(), a=Status.UNREACHABLE), ttl_ms=TTL)
    await controller.tick()
    assert await weights(store) == {A: 0, B: 250}
    assert (f"status:phi-3 {A}", "serves", "unreachable") in await told(store)


async def test_lost_agent_freezes_the_weights(store, controller, clock):
    await store.publish(tick(clock(), a=0.4, b=0.75), ttl_ms=TTL)
    await controller.tick()
    clock.at_ms += 10 * TTL
    await controller.tick()
    assert await weights(store) == {A: 600, B: 250}
    assert (f"status:phi-3 {A}", "serves", "unknown") in await told(store)


async def test_nothing_is_written_when_nothing_changes(store, controller, clock):
    await store.publish(tick(clock(), a=0.4, b=0.75), ttl_ms=TTL)
    await controller.tick()
    for _ in range(5):
        await controller.tick()
    assert store.writes == 1


async def test_noise_in_the_load_is_not_written_and_the_figures_follow_within_a_second(store, controller, clock):
    await store.publish(tick(clock(), a=0.4, b=0.75), ttl_ms=TTL)
    await controller.tick()
    for step in range(1, 9):
        clock.at_ms += 250
        await store.publish(tick(clock(), a=0.4 + 0.0005 * step, b=0.75, seq=step), ttl_ms=TTL)
        await controller.tick()
    assert await weights(store) == {A: 600, B: 250}
    assert store.writes == 3
    assert (await store.explain(["phi-3"]))["phi-3"][A]["load"]["vram"] == pytest.approx(0.404)


async def test_ready_and_idle_are_one_state_in_the_log(store, controller, clock):
    for status in (Status.READY, Status.IDLE, Status.READY):
        await store.publish(tick(clock(), a=status, b=0.1), ttl_ms=TTL)
        await controller.tick()
    assert [what for what, *_ in await told(store)].count(f"status:phi-3 {A}") == 1


async def test_weights_that_someone_else_lost_are_written_again(store, controller, clock):
    await store.publish(tick(clock(), a=0.4, b=0.75), ttl_ms=TTL)
    await controller.tick()
    fresh = CountingStore(clock)
    controller.store = fresh
    await fresh.publish(tick(clock(), a=0.4, b=0.75), ttl_ms=TTL)
    await controller.tick()
    assert await weights(fresh) == {A: 600, B: 250}


async def test_restart_continues_from_the_published_state_and_repeats_no_event(store, controller, clock):
    await store.publish(tick(clock(), a=0.4, b=0.75), ttl_ms=TTL)
    await store.set_field("weight:phi-3", B, "7")
    await store.set_field("weight:phi-3", A, "banana")
    await controller.tick()
    before = await told(store)
    clock.at_ms += 10 * TTL
    await controller.resign()
    await Controller(store, TOPOLOGY, clock=clock).tick()
    assert await weights(store) == {A: 600, B: 7}
    assert [e for e in await told(store) if not e[0].startswith("status:")] == [
        e for e in before if not e[0].startswith("status:")
    ]


async def test_failed_write_repeats_the_event_and_loses_none(store, controller, clock):
    await controller.tick()
    await store.set_field("drain:phi-3", A, "x")

    class Failing:
        def __getattr__(self, name):
            return getattr(store, name)

        async def write_decisions(self, *_, **__):
            raise StoreUnavailable("gone")

    controller.store = Failing()
    with pytest.raises(StoreUnavailable):
        await controller.tick()
    controller.store = store
    await controller.tick()
    assert [what for what, *_ in await told(store)].count(f"drain:phi-3 {A}") == 1


async def test_registered_replica_joins_and_leaves_when_it_alone_was_silent_for_the_grace(store, controller, clock):
    other = "10.0.0.7:8000"
    await store.publish(tick(clock(), **{other: 0.5}), ttl_ms=TTL)
    await controller.tick()
    assert (await weights(store))[other] == 500
    for _ in range(GRACE_MS // MOST_STEP_MS + 1):
        clock.at_ms += MOST_STEP_MS
        await store.publish(tick(clock(), a=0.4, b=0.75), ttl_ms=TTL)
        await controller.tick()
    assert other not in await weights(store)
    assert (f"status:phi-3 {other}", "unknown", "") in [one[:3] for one in await told(store)]


async def test_registered_replica_stays_while_no_agent_is_heard(store, controller, clock):
    other = "10.0.0.7:8000"
    await store.publish(tick(clock(), a=0.4, **{other: 0.5}), ttl_ms=TTL)
    await controller.tick()
    clock.at_ms += 3_600_000
    await controller.tick()
    assert (await weights(store))[other] == 500


def emptied(store):
    """What FLUSHALL leaves of it."""
    return CountingStore(store._clock_ms)


async def test_an_emptied_store_gets_back_what_operators_typed_and_who_was_there(store, controller, clock):
    other = "10.0.0.7:8000"
    await store.publish(tick(clock(), a=0.4, b=0.5, **{other: 0.5}), ttl_ms=TTL)
    await store.set_field("weight:phi-3", A, "7")
    await store.set_field("drain:phi-3", B, "fan is broken")
    await controller.tick()
    before, controller.store = await weights(store), emptied(store)
    await controller.store.set_field("weight:phi-3", A, "8")
    await controller.tick()
    assert await weights(controller.store) == before | {A: 8}
    keys = await controller.store.operator_keys(["phi-3"], [])
    assert (keys.weights, keys.drains) == ({"phi-3": {A: "8"}}, {"phi-3": {B: "fan is broken"}})
    assert {address for _, address, _ in await controller.store.registered()} == {A, B, other}
    await controller.store.clear_field("drain:phi-3", B)
    await controller.tick()
    assert (await weights(controller.store))[B] > 0


async def test_a_fresh_controller_on_an_empty_store_restores_nothing(controller):
    await controller.tick()
    assert await controller.store.registered() == []


async def test_endpoint_of_a_cluster_that_the_file_lacks_is_left_alone(store, controller, clock):
    await store.publish(tick(clock(), cluster="other", a=0.4), ttl_ms=TTL)
    await controller.tick()
    assert await store.effective(["other"]) == {"other": {}}


async def test_presence_shows_the_controller(store, controller):
    await controller.tick()
    assert "controller" in (await store.present())["controller"]


async def heard(store):
    """How many words `store` passes on while the block runs."""
    words = []

    async def listen():
        async for word in store.nudges():
            words.append(word)  # noqa: PERF401 - the list is read meanwhile

    task = asyncio.create_task(listen())
    await until(lambda: store._nudged, what="a listener")
    return words, task


async def test_an_order_is_decided_on_without_a_look_at_samples(store, controller, clock):
    await store.publish(tick(clock(), a=0.4, b=0.5), ttl_ms=TTL)
    await controller.tick()
    store.samples = None
    assert await controller.orders() == 0
    await store.set_field("weight:phi-3", A, "7")
    assert await controller.orders() == 1
    assert await weights(store) == {A: 7, B: 500}
    assert await controller.orders() == 0
    await store.clear_field("weight:phi-3", A)
    assert await controller.orders() == 1
    assert await weights(store) == {A: 600, B: 500}


async def test_orders_before_the_first_look_wait_for_it(store, controller):
    await store.set_field("weight:phi-3", A, "7")
    assert await controller.orders() == 0


async def test_an_emptied_store_takes_no_order_back(store, controller, clock):
    await store.publish(tick(clock(), a=0.4, b=0.5), ttl_ms=TTL)
    await store.set_field("weight:phi-3", A, "7")
    await controller.tick()
    controller.store = emptied(store)
    await controller.orders()
    assert (await weights(controller.store))[A] == 7
    assert (await controller.store.operator_keys(["phi-3"], [])).weights == {"phi-3": {A: "7"}}


@pytest.mark.parametrize(
    "key", ["weight:phi-3", "drain:phi-3", "tune:phi-3", "tune"], ids=["weight", "drain", "tunable", "global"]
)
async def test_whatever_an_operator_types_is_passed_on_at_once(store, controller, clock, key):
    await store.publish(tick(clock(), a=0.4, b=0.5), ttl_ms=TTL)
    await controller.tick()
    words, listener = await heard(store)
    await store.set_field(key, A, "7")
    await controller.orders()
    await until(lambda: words, what="a word")
    listener.cancel()
    await asyncio.gather(listener, return_exceptions=True)


async def test_a_replica_that_goes_is_passed_on_and_a_load_that_moves_is_not(store, controller, clock):
    await store.publish(tick(clock(), a=0.4, b=0.5), ttl_ms=TTL)
    await controller.tick()
    words, listener = await heard(store)
    await store.publish(tick(clock(), seq=2, a=0.8, b=0.5), ttl_ms=TTL)
    await controller.tick()
    await asyncio.sleep(0)
    assert words == []
    await store.publish(tick(clock(), seq=3, a=Status.UNREACHABLE, b=0.5), ttl_ms=TTL)
    await controller.tick()
    await until(lambda: words, what="a word")
    listener.cancel()
    await asyncio.gather(listener, return_exceptions=True)


async def test_a_key_for_a_cluster_that_the_file_lacks_is_said_and_taken_back(store, controller):
    await controller.tick()
    await store.set_field("weight:phi3", A, "7")
    await controller.look_for_strays()
    await controller.tick()
    assert await store.rejected() == {"weight:phi3": "no cluster of the file is called phi3; did you mean phi-3?"}
    await store.clear_field("weight:phi3", A)
    await controller.look_for_strays()
    await controller.tick()
    assert await store.rejected() == {}


async def test_weights_move_at_once_and_why_within_a_second(store, controller, clock):
    await store.publish(tick(clock(), a=0.1, b=0.1), ttl_ms=TTL)
    await controller.tick()
    shown = []
    for step in range(1, 60):
        clock.at_ms += 250
        await store.publish(tick(clock(), a=0.95, b=0.1, seq=step), ttl_ms=TTL)
        await controller.tick()
        shown.append(((await weights(store))[A], (await store.explain(["phi-3"]))["phi-3"][A]["weight"]))
    assert any(weight != why for weight, why in shown)
    assert all(why in [weight for weight, _ in shown[at - 4 : at + 1]] for at, (_, why) in enumerate(shown) if at >= 4)


async def test_time_alone_writes_nothing(store, controller, clock):
    for step in range(60):
        clock.at_ms += 250
        await store.publish(tick(clock(), a=0.4, b=0.75, seq=step), ttl_ms=TTL)
        await controller.tick()
    before = store.writes
    for step in range(60, 80):
        clock.at_ms += 250
        await store.publish(tick(clock(), a=0.4, b=0.75, seq=step), ttl_ms=TTL)
        await controller.tick()
    assert store.writes == before
