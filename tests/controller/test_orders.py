"""Operators' orders as the controller carries them out: ends, tunes, and who is said to have given them."""

from __future__ import annotations

import pytest

from controller.controller import Controller
from tests.controller.world import TOPOLOGY, A, Clock, tick
from tidegate.domain.errors import StoreRefused
from tidegate.domain.lifetime import time_text
from tidegate.domain.operators import FieldChange
from tidegate.store.memory import MemoryStore
from tidegate.store.ports import Event

TTL = 3_000
PIN, MINUTE = f"weight:phi-3 {A}", 60_000


@pytest.fixture
def clock():
    return Clock(at_ms=1_764_455_000_000)


@pytest.fixture
def store(clock):
    return MemoryStore(clock)


@pytest.fixture
def controller(store, clock):
    return Controller(store, TOPOLOGY, clock=clock)


async def weight(store):
    return (await store.effective(["phi-3"]))["phi-3"][A]


async def typed(store):
    keys = await store.operator_keys(["phi-3"], [])
    return {**keys.weights.get("phi-3", {}), **keys.drains.get("phi-3", {})}


async def told(store, what):
    return [(e.who, e.before, e.after, e.why) for e in await store.events(100) if e.what == what]


async def test_a_pin_for_a_while_ends_by_itself(store, controller, clock):
    await store.publish(tick(clock(), a=0.4, b=0.75), ttl_ms=TTL)
    await store.set_field("weight:phi-3", A, "100 for 1m")
    await controller.tick()
    end = time_text(clock() + MINUTE)
    assert await weight(store) == 100
    assert await typed(store) == {A: f"100 until {end}"}
    assert (await store.explain(["phi-3"]))["phi-3"][A]["pinned_until_ms"] == clock() + MINUTE
    clock.at_ms += MINUTE - 1
    await controller.tick()
    assert await weight(store) == 100
    clock.at_ms += 1
    await store.publish(tick(clock(), a=0.4, b=0.75), ttl_ms=TTL)
    await controller.tick()
    assert await weight(store) == 600
    assert await typed(store) == {}
    assert await told(store, PIN) == [
        ("redis key", "", f"100 until {end}", "set"),
        ("controller", f"100 until {end}", "", "its time is over"),
    ]


async def test_the_same_words_typed_again_begin_anew(store, controller, clock):
    await store.set_field("weight:phi-3", A, "100 for 1m")
    await controller.tick()
    clock.at_ms += MINUTE // 2
    await store.set_field("weight:phi-3", A, "100 for 1m")
    await controller.tick()
    assert await typed(store) == {A: f"100 until {time_text(clock() + MINUTE)}"}


@pytest.mark.parametrize(
    ("text", "reason"), [("disk for 2h", "disk"), ("for 2h", ""), ("out for lunch", "out for lunch")]
)
async def test_a_drain_has_a_reason_and_may_have_an_end(store, controller, clock, text, reason):
    await store.set_field("drain:phi-3", A, text)
    await controller.tick()
    assert await weight(store) == 0
    explain = (await store.explain(["phi-3"]))["phi-3"][A]
    assert explain["drained"] == reason
    assert ("drained_until_ms" in explain) is (text != reason)
    clock.at_ms += 120 * MINUTE
    await controller.tick()
    assert (await typed(store) == {}) is (text != reason)


async def test_an_end_outlives_the_controller_and_an_emptied_redis(store, controller, clock):
    await store.set_field("weight:phi-3", A, "100 for 1m")
    await controller.tick()
    end = clock() + MINUTE
    await controller.tick()
    fresh = MemoryStore(clock)
    controller.store = fresh
    await controller.tick()
    assert await typed(fresh) == {A: f"100 until {time_text(end)}"}
    clock.at_ms = end
    heir = Controller(fresh, TOPOLOGY, clock=clock)
    await heir.tick()
    assert await typed(fresh) == {}
    assert (await told(fresh, PIN))[-1][-1] == "its time is over"


async def test_an_end_that_cannot_be_written_down_still_comes(store, controller, clock):
    async def refuse(changes, events, *, lease):
        raise StoreRefused("no EVAL")

    await store.set_field("weight:phi-3", A, "100 for 1m")
    store.change_fields = refuse
    await controller.tick()
    clock.at_ms += MINUTE
    await controller.tick()
    assert await weight(store) != 100


async def test_the_last_good_pin_ends_when_it_would_have(store, controller, clock):
    await store.set_field("weight:phi-3", A, "100 for 1m")
    await controller.tick()
    await store.set_field("weight:phi-3", A, "banana")
    await controller.tick()
    assert await weight(store) == 100
    clock.at_ms += MINUTE
    await controller.tick()
    assert await weight(store) != 100


async def test_a_bad_tune_is_explained_once_and_the_last_good_one_stays_over_a_restart(store, controller, clock):
    await store.set_field("tune:phi-3", "envoy.retries", "3")
    await controller.tick()
    await store.set_field("tune:phi-3", "envoy.retries", "banana")
    await controller.tick()
    await controller.resign()
    heir = Controller(store, TOPOLOGY, clock=clock)
    await heir.tick()
    keys = await store.operator_keys(["phi-3"], [])
    assert keys.good_tunes() == {"phi-3": {"envoy.retries": "3"}}
    assert (
        "'banana' is no whole number between 0 and 5; the last good value 3 stays in force"
        in (await store.rejected())["tune:phi-3 envoy.retries"]
    )
    assert len(await told(store, "rejected tune:phi-3 envoy.retries")) == 1
    await store.clear_field("tune:phi-3", "envoy.retries")
    await heir.tick()
    assert await store.rejected() == {}
    assert (await store.operator_keys(["phi-3"], [])).tuned == {}
    assert await told(store, "tune:phi-3 envoy.retries") == [
        ("redis key", "", "3", "set"),
        ("redis key", "3", "", "cleared"),
    ]


async def test_an_unknown_tunable_is_refused_with_the_nearest_name(store, controller):
    await store.set_field("tune", "envoy.retires", "3")
    await controller.tick()
    assert "did you mean envoy.retries?" in (await store.rejected())["tune envoy.retires"]


async def test_what_the_command_line_said_is_not_said_again(store, controller, clock):
    said = Event(at_ms=clock(), who="cli:ann@box", what=PIN, before="", after="100", why="set")
    await store.change_fields([FieldChange(key="weight:phi-3", field=A, value="100")], [said])
    await controller.tick()
    assert await told(store, PIN) == [("cli:ann@box", "", "100", "set")]
    await store.set_field("weight:phi-3", A, "7")
    await controller.tick()
    assert (await told(store, PIN))[-1] == ("redis key", "100", "7", "set")
