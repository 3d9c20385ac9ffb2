"""The leader's duty on a store in memory and a clock in hand: acts begin once, end, survive, and are told."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from controller.actions.duty import ActionsDuty
from controller.actions.instruments import ActionInstruments
from tests.actions.acts import NOW_MS
from tidegate.domain.actions.act import Deed, Kind
from tidegate.domain.actions.book import MOST_NOTICES
from tidegate.domain.actions.effects import NONE
from tidegate.domain.actions.notice import Notice
from tidegate.domain.actions.rules import Order
from tidegate.domain.errors import NotLeading, StoreUnavailable
from tidegate.domain.lease import Lease
from tidegate.store.memory import MemoryStore

MINUTE_MS = 60_000
ORDER = Order(
    rule="cut", deed=Deed(kind=Kind.RETRIES, cluster="phi-3", to=0), for_ms=10 * MINUTE_MS, at_most_ms=60 * MINUTE_MS
)


class World:
    """A store whose time stands until it is moved, and controllers that take the lead in turn."""

    def __init__(self) -> None:
        self.now_ms = NOW_MS
        self.store = MemoryStore(lambda: self.now_ms)
        self.registry = CollectorRegistry()
        self.duty = self.controller(self.registry)
        self.lease: Lease | None = None

    def controller(self, registry: CollectorRegistry | None = None, rules: tuple[str, ...] = ("cut",)) -> ActionsDuty:
        return ActionsDuty(self.store, rules, ActionInstruments(registry or CollectorRegistry()))

    async def lead(self, name: str = "one") -> Lease:
        if self.lease is not None:
            await self.store.resign(self.lease)
        self.lease = await self.store.take_lead(name, ttl_ms=10**9)
        assert self.lease is not None
        return self.lease

    async def hear(self, *notices: Notice) -> None:
        assert await self.store.deliver(notices, most=2_000)
        await self.tick()

    async def tick(self) -> None:
        await self.duty.tick(self.lease or await self.lead())

    def notice(self, **changes: Any) -> Notice:
        now = self.now_ms
        known = {"version_ms": NOW_MS, "first_ms": now, "last_ms": now, "orders": (ORDER,), **changes}
        if known.pop("over", False):
            known["ended_ms"] = known["version_ms"]
        return Notice(key="alert:1", cause="alert Failing", **known)

    async def said(self) -> list[tuple[str, str, str, str, str]]:
        return [(one.who, one.what, one.before, one.after, one.why) for one in await self.store.events(100)]


@pytest.fixture
def world() -> World:
    return World()


async def test_fifty_deliveries_act_once_and_resolved_undoes(world: World) -> None:
    for _ in range(25):
        await world.hear(world.notice(), world.notice())
        world.now_ms += 10
    assert (await world.store.effects()).retries == {"phi-3": 0}
    [act] = await world.store.acts()
    assert (act.since_ms, len(await world.store.events(100))) == (NOW_MS, 1)
    await world.hear(world.notice(over=True), world.notice())
    assert await world.store.effects() == NONE
    began, ended = await world.said()
    assert began[:4] == ("alert Failing", "act:retries phi-3", "", "to 0")
    assert ended[:4] == ("controller", "act:retries phi-3", "to 0", "")
    assert ended[4].startswith("resolved; rule cut, act ")


async def test_an_act_ends_by_itself(world: World) -> None:
    await world.hear(world.notice())
    world.now_ms += 10 * MINUTE_MS
    await world.tick()
    assert await world.store.effects() == NONE
    assert (await world.said())[-1][4].startswith("its time is over")


async def test_an_operator_cancels_and_repeats_do_not_bring_it_back(world: World) -> None:
    await world.hear(world.notice())
    [act] = await world.store.acts()
    known = (await world.store.notices())["alert:1"]
    await world.hear(replace(known, cancelled={act.id: "cli:ann"}))
    await world.hear(world.notice())
    assert await world.store.acts() == []
    assert (await world.said())[-1][4].startswith("cancelled by cli:ann")


async def test_a_dry_run_is_told_and_does_nothing(world: World) -> None:
    await world.hear(world.notice(orders=(replace(ORDER, dry_run=True),)))
    assert await world.store.effects() == NONE
    assert [one.dry_run for one in await world.store.acts()] == [True]
    assert [line[4][:22] for line in await world.said()] == ["dry run: would begin; "]
    await world.hear(world.notice(over=True))
    assert len(await world.said()) == 1


async def test_a_successor_goes_on_and_repeats_no_event(world: World) -> None:
    await world.hear(world.notice())
    acts = await world.store.acts()
    world.duty = world.controller()
    await world.lead("two")
    await world.hear(world.notice())
    assert (await world.store.acts(), len(await world.said())) == (acts, 1)
    await world.hear(world.notice(over=True))
    assert await world.store.acts() == []


async def test_who_was_deposed_writes_nothing(world: World) -> None:
    await world.tick()
    old = world.lease
    assert old is not None
    await world.lead("two")
    await world.store.deliver([world.notice()], most=10)
    with pytest.raises(NotLeading):
        await world.duty.tick(old)
    assert (await world.store.acts(), (await world.store.delivered(10)).taken) == ([], 1)


async def test_an_emptied_store_gets_notices_and_acts_back(world: World) -> None:
    await world.hear(world.notice())
    acts = await world.store.acts()
    world.store = MemoryStore(lambda: world.now_ms)
    world.duty._store, world.lease = world.store, None
    await world.lead("the same, by another lease")
    await world.tick()
    assert (await world.store.acts(), set(await world.store.notices()), await world.said()) == (acts, {"alert:1"}, [])
    await world.hear(world.notice(over=True))
    assert await world.store.acts() == []


async def test_a_store_that_fails_loses_no_notice(world: World) -> None:
    await world.tick()
    await world.store.deliver([world.notice()], most=10)
    world.store.available = False
    with pytest.raises(StoreUnavailable):
        await world.tick()
    world.store.available = True
    await world.tick()
    assert len(await world.store.acts()) == 1


async def test_acts_of_a_rule_that_left_the_file_end(world: World) -> None:
    await world.hear(world.notice())
    world.duty = world.controller(rules=("other",))
    await world.lead("two")
    await world.tick()
    assert await world.store.acts() == []


async def test_the_acts_of_another_source_stay(world: World) -> None:
    await world.hear(world.notice())
    [act] = await world.store.acts()
    await world.store.write_acts("self-healing", [replace(act, id="other")], [])
    await world.hear(world.notice(over=True))
    assert [one.id for one in await world.store.acts()] == ["other"]


async def test_metrics_count_what_is_in_force_and_what_turned(world: World) -> None:
    await world.hear(world.notice())
    value = world.registry.get_sample_value
    assert value("tidegate_actions_in_force", {"kind": "retries"}) == 1
    await world.hear(world.notice(over=True))
    assert value("tidegate_actions_in_force", {"kind": "retries"}) == 0
    told = {"kind": "retries", "event": "began"}
    assert value("tidegate_actions_total", told) == 1 == value("tidegate_actions_total", {**told, "event": "ended"})


async def test_alerts_beyond_what_is_remembered_are_told_and_those_in_force_stay(world: World) -> None:
    await world.hear(world.notice())
    world.now_ms += 1
    flood = [replace(world.notice(), key=f"alert:x{n}") for n in range(MOST_NOTICES)]
    with capture_logs() as lines:
        for part in range(0, MOST_NOTICES, 500):
            await world.hear(*flood[part : part + 500])
    assert (len(await world.store.acts()), "alert:1" in await world.store.notices()) == (MOST_NOTICES, True)
    assert [one["count"] for one in lines if one["log_level"] == "warning"] == [1]


async def test_everyone_is_nudged_when_an_act_begins_and_not_when_it_is_heard_again(world: World) -> None:
    await world.tick()
    nudges = 0

    async def nudge() -> None:
        nonlocal nudges
        nudges += 1

    world.store.nudge = nudge  # type: ignore[method-assign]
    await world.hear(world.notice())
    await world.hear(world.notice())
    assert (nudges, (await world.store.delivered(10)).taken) == (1, 0)
