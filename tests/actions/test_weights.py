"""Acts at the controller: weights that are frozen, drained and reduced, and what is left when the acts have ended."""

from __future__ import annotations

from typing import Any

import pytest

from controller.controller import Controller
from tests.actions.acts import act
from tests.controller.world import TOPOLOGY, A, B, Clock, tick
from tidegate.domain.actions.act import Act
from tidegate.domain.sample import Status
from tidegate.store.memory import MemoryStore

FROZEN = act("freeze", ident="f1", what=("weights",))
DRAINED = act("reduce", ident="d1", cluster="phi-3", replica=A, ratio=0.0)
HALF = act("reduce", ident="h1", cluster="phi-3", replica=A, ratio=0.5)


class World:
    """A controller on a store in memory; two replicas that say how full they are."""

    def __init__(self) -> None:
        self.clock = Clock(at_ms=1_764_455_000_000)  # type: ignore[no-untyped-call]
        self.store = MemoryStore(self.clock)
        self.controller = Controller(self.store, TOPOLOGY, clock=self.clock)
        self.seq = 0

    async def pass_seconds(self, seconds: float, **said: Any) -> None:
        for _ in range(round(seconds * 4)):
            self.clock.at_ms += 250
            self.seq += 1
            heard = tick(self.clock.at_ms, seq=self.seq, **said)  # type: ignore[no-untyped-call]
            await self.store.publish(heard, ttl_ms=10_000)
            await self.controller.tick()

    async def acts(self, *acts: Act) -> None:
        await self.store.write_acts("alerts", acts, [])
        await self.controller.orders()

    async def weights(self) -> dict[str, int]:
        return (await self.store.effective(["phi-3"]))["phi-3"]

    async def why(self, address: str) -> dict[str, Any]:
        return (await self.store.explain(["phi-3"]))["phi-3"][address]


@pytest.fixture
async def world() -> World:
    world = World()
    await world.pass_seconds(20, a=0.2, b=0.2)
    return world


async def test_frozen_weights_stay_while_load_moves_and_follow_it_again(world: World) -> None:
    before = await world.weights()
    await world.acts(FROZEN)
    await world.pass_seconds(15, a=0.9, b=0.1)
    assert await world.weights() == before
    assert (await world.why(A))["frozen"] == before[A]
    world.controller = Controller(world.store, TOPOLOGY, clock=world.clock, instance="a successor")
    world.clock.at_ms += 10_000
    await world.pass_seconds(2, a=0.9, b=0.1)
    assert await world.weights() == before
    await world.acts()
    await world.pass_seconds(2, a=0.9, b=0.1)
    after = await world.weights()
    assert after[A] < before[A]
    assert "frozen" not in await world.why(A)


async def test_frozen_weights_send_nothing_to_who_is_drained_or_gone(world: World) -> None:
    await world.acts(FROZEN)
    await world.store.set_field("drain:phi-3", A, "kernel")
    await world.controller.orders()
    assert (await world.weights())[A] == 0
    await world.store.clear_field("drain:phi-3", A)
    await world.pass_seconds(0.5, a=0.2, b=Status.UNREACHABLE)
    assert (await world.weights())[B] == 0
    await world.pass_seconds(20, a=0.2, b=0.2)
    assert min((await world.weights()).values()) > 300


async def test_a_replica_that_an_act_drained_ramps_up_again(world: World) -> None:
    before = await world.weights()
    await world.acts(DRAINED)
    assert await world.weights() == {A: 0, B: before[B]}
    assert (await world.why(A))["act"] == "d1"
    await world.pass_seconds(2, a=0.2, b=0.2)
    await world.acts()
    await world.pass_seconds(0.5, a=0.2, b=0.2)
    assert 0 < (await world.weights())[A] < before[A] / 2
    await world.pass_seconds(20, a=0.2, b=0.2)
    assert (await world.weights())[A] == pytest.approx(before[A], rel=0.05)


async def test_a_reduction_holds_within_a_freeze_and_does_not_compound(world: World) -> None:
    before = await world.weights()
    await world.acts(FROZEN)
    await world.acts(FROZEN, HALF)
    await world.pass_seconds(3, a=0.2, b=0.2)
    assert await world.weights() == {A: round(before[A] / 2), B: before[B]}
    await world.acts(FROZEN)
    assert await world.weights() == before


async def test_an_emptied_store_does_not_lift_acts_for_a_moment(world: World) -> None:
    await world.acts(DRAINED)
    world.controller.store = world.store = MemoryStore(world.clock)
    await world.pass_seconds(0.25, a=0.2, b=0.2)
    assert (await world.weights())[A] == 0
