"""Targets as the leader writes them: from samples to the key, across leaders, orders, alerts and an emptied store."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.controller.world import tick
from tests.scaling.world import CLUSTER, Leader, World
from tidegate.domain.actions.act import Act, Deed, Kind
from tidegate.domain.errors import NotLeading
from tidegate.domain.sample import Status
from tidegate.domain.scaling.rule import Reason
from tidegate.store.memory import MemoryStore

TUNE = f"tune:{CLUSTER}"


@pytest.fixture
async def world() -> World:
    world = World()
    await world.leader.lead()
    return world


async def test_load_above_the_threshold_for_half_a_minute_asks_for_more_and_says_why(world: World) -> None:
    await world.pass_seconds(61, a=0.9, b=0.9)
    assert (await world.target()).desired == 3
    [first, second] = await world.said()
    assert (first.before, first.after, second.before, second.after) == ("", "2", "2", "3")
    assert second.why.startswith("load: load 0.90 of 2 wanted (2 ready at 0.90, 0 coming), above 0.85 for ")
    assert world.leader.value("tidegate_scale_desired_replicas") == 3
    assert world.leader.value("tidegate_scale_ready_replicas") == 2
    assert world.leader.value("tidegate_scale_demand_replicas") == pytest.approx(1.8)
    assert world.leader.value("tidegate_replicas_scaled_total", reason="load") == 1


async def test_a_high_load_that_passes_changes_nothing(world: World) -> None:
    for _ in range(4):
        await world.pass_seconds(25, a=0.95, b=0.95)
        await world.pass_seconds(5, a=0.5, b=0.5)
    assert (await world.target()).desired == 2


async def test_replicas_that_load_count_as_coming_and_drained_ones_as_leaving(world: World) -> None:
    await world.pass_seconds(100, a=0.95, b=Status.LOADING)
    assert (await world.target()).desired == 2
    await world.store.set_field(f"drain:{CLUSTER}", "10.0.0.6:8000", "kernel")
    await world.pass_seconds(40, a=0.95, b=0.1)
    assert world.leader.value("tidegate_scale_leaving_replicas") == 1
    assert (await world.target()).desired == 2


async def test_silence_takes_nothing_away_and_low_load_does(world: World) -> None:
    await world.store.set_field(TUNE, "scale.down_seconds", "20")
    await world.store.set_field(TUNE, "scale.down_cooldown_seconds", "20")
    await world.pass_seconds(60, a=0.1)
    assert (await world.target()).desired == 2
    await world.pass_seconds(60)
    assert (await world.target()).desired == 2
    await world.pass_seconds(60, a=0.1, b=0.1)
    told = await world.target()
    assert (told.desired, told.reason) == (1, Reason.LOW)


async def test_an_idle_cluster_goes_to_none_where_it_may_and_a_request_brings_it_back(world: World) -> None:
    for name, value in (("scale.idle_seconds", "20"), ("scale.down_cooldown_seconds", "20"), ("scale.min", "0")):
        await world.store.set_field(TUNE, name, value)
    await world.pass_seconds(45, a=Status.IDLE, b=Status.IDLE)
    assert (await world.target()).reason is Reason.IDLE
    assert (await world.target()).desired == 0
    await world.store.beat("ext_proc", "p", {"unserved_at_ms": {CLUSTER: world.clock()}}, ttl_ms=5_000)
    await world.pass_seconds(1)
    assert (await world.target()).desired == 1


async def test_what_waits_in_the_gateway_is_demand_beyond_a_full_replica(world: World) -> None:
    queues = {CLUSTER: {"waiting": 40}}
    for _ in range(61):
        await world.store.beat("ext_proc", "p", {"queues": queues}, ttl_ms=5_000)
        now = world.clock() + 1_000
        sample = tick(now, a=0.95, b=0.95)
        busy = replace(sample, endpoints=tuple(replace(one, running=10, waiting=0) for one in sample.endpoints))
        world.clock.at_ms = now
        await world.store.publish(busy, ttl_ms=3_000)
        await world.leader.explain()
        await world.look()
    assert (await world.target()).desired == 4  # 1.9 × (1 + 40/20) / 0.65 is 9, and the speed is 2


async def test_an_operator_s_number_holds_until_its_end_and_wins_over_bounds(world: World) -> None:
    await world.pass_seconds(2, a=0.5, b=0.5)
    await world.store.set_field(TUNE, "scale.max", "3")
    await world.store.set_field(TUNE, "scale.replicas", "7 for 10s")
    await world.pass_seconds(1, a=0.5, b=0.5)
    typed = (await world.store.operator_keys([CLUSTER], [])).tunes[CLUSTER]
    assert typed["scale.replicas"] == "7 until 1970-01-01T00:16:53Z"
    told = await world.target()
    assert (told.desired, told.reason) == (7, Reason.OPERATOR)
    await world.pass_seconds(9, a=0.5, b=0.5)
    assert (await world.target()).desired == 7
    await world.pass_seconds(1, a=0.5, b=0.5)
    assert (await world.target()).desired == 2
    assert "scale.replicas" not in (await world.store.operator_keys([CLUSTER], [])).tunes[CLUSTER]
    assert [event.after for event in await world.said()] == ["2", "7", "2"]
    said = await world.said(f"{TUNE} scale.replicas")
    assert [event.why for event in said if event.who == "controller"] == ["its end is a time", "its time is over"]


async def test_a_number_that_is_none_is_rejected_and_the_last_good_one_stays(world: World) -> None:
    await world.store.set_field(TUNE, "scale.replicas", "5")
    await world.pass_seconds(2, a=0.5, b=0.5)
    await world.store.set_field(TUNE, "scale.replicas", "many")
    await world.pass_seconds(2, a=0.5, b=0.5)
    assert "stays in force" in (await world.store.rejected())[f"{TUNE} scale.replicas"]
    assert (await world.target()).desired == 5


async def test_an_alert_adds_replicas_within_the_bounds_until_it_is_undone(world: World) -> None:
    await world.pass_seconds(2, a=0.5, b=0.5)
    more = Act(id="x", deed=Deed(kind=Kind.SCALE, cluster=CLUSTER, by=5), rule="r", cause="alert Slow", since_ms=1)
    await world.store.set_field(TUNE, "scale.max", "4")
    await world.store.write_acts("alerts", [more], [])
    await world.pass_seconds(1, a=0.5, b=0.5)
    told = await world.target()
    assert (told.desired, told.reason) == (4, Reason.ALERT)
    await world.store.write_acts("alerts", [], [])
    await world.pass_seconds(1, a=0.5, b=0.5)
    assert (await world.target()).desired == 2
    assert world.leader.value("tidegate_replicas_scaled_total", reason="alert") == 1


async def test_the_next_leader_goes_on_with_targets_times_and_rests(world: World) -> None:
    await world.pass_seconds(61, a=0.9, b=0.9)
    before = await world.target()
    await world.leader.resign()
    world.leader = Leader(world.store, world.clock, instance="b")
    await world.leader.lead()
    await world.pass_seconds(58, a=1.0, b=1.0)
    assert await world.target() == before
    assert len(await world.said()) == 2
    await world.pass_seconds(5, a=1.0, b=1.0)
    assert (await world.target()).desired == 3  # two full ones are 0.67 of three: nothing more is asked for


async def test_who_has_lost_the_lease_writes_nothing(world: World) -> None:
    await world.pass_seconds(2, a=0.5, b=0.5)
    old, before = world.leader, await world.target()
    await old.resign()
    heir = Leader(world.store, world.clock, instance="b")
    await heir.lead()
    await world.store.set_field(TUNE, "scale.replicas", "9")
    with pytest.raises(NotLeading):
        await world.look()
    assert await world.target() == before


async def test_targets_of_an_emptied_store_are_written_back(world: World) -> None:
    await world.pass_seconds(61, a=0.9, b=0.9)
    before = await world.target()
    empty = MemoryStore(world.clock)
    world.leader.store = world.store = world.leader.duty._store = empty
    await world.leader.lead()
    await world.look()
    assert await world.target() == before
    await world.pass_seconds(5, a=0.9, b=0.9)
    assert await world.target() == before


async def test_what_a_hand_wrote_there_is_replaced_and_the_log_says_how_to_order(world: World) -> None:
    await world.pass_seconds(2, a=0.5, b=0.5)
    before = (await world.store.targets([CLUSTER]))[CLUSTER]
    typed = replace(before, target=replace(before.target, desired=9))
    await world.store.write_targets({CLUSTER: typed}, [])
    await world.pass_seconds(1, a=0.5, b=0.5)
    assert (await world.target()).desired == 2
    [said] = await world.said(f"rejected scale:{CLUSTER}")
    assert f"tidegate scale set {CLUSTER} 9" in said.why


async def test_only_a_leader_that_looks_tells_gauges(world: World) -> None:
    await world.pass_seconds(1, a=0.5, b=0.5)
    assert world.leader.value("tidegate_scale_desired_replicas") == 2
    world.clock.at_ms += 10_000
    assert world.leader.value("tidegate_scale_desired_replicas") is None
