"""The controller judges `split:{model}`: what it accepts is in `tuned`, what it refuses in `rejected`, all in `events`."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from controller.controller import Controller
from tests.conftest import until
from tests.controller.world import Clock, tick
from tidegate.domain.routing import Split
from tidegate.domain.topology import Cluster, Topology
from tidegate.store.memory import MemoryStore

TOPOLOGY = Topology(
    clusters=(Cluster("phi-3", models=("phi-3",)), Cluster("canary", models=())),
    splits=(Split("phi-3", (("phi-3", 990), ("canary", 10))),),
)
GOOD = "phi-3=950 canary=50"


class Desk:
    """An operator before a controller that decides when the test says so."""

    def __init__(self) -> None:
        self.clock: Any = Clock()  # type: ignore[no-untyped-call]
        self.store = MemoryStore(self.clock)
        self.controller = Controller(self.store, TOPOLOGY, clock=self.clock)

    async def types(self, **shares: str) -> None:
        for name, share in shares.items():
            await self.store.set_field("split:phi-3", name.replace("phi", "phi-3"), share)
        await self.decides()

    async def decides(self) -> None:
        await self.store.publish(tick(self.clock(), a=0.5), ttl_ms=3000)  # type: ignore[no-untyped-call]
        await self.controller.tick()

    def empty(self) -> None:
        """Redis lost everything."""
        self.store = self.controller.store = MemoryStore(self.clock)

    async def in_force(self) -> str | None:
        return (await self.store.operator_keys((), ())).tuned.get("split:phi-3")

    async def refused(self) -> str | None:
        return (await self.store.rejected()).get("split:phi-3")

    async def told(self) -> list[tuple[str, str, str]]:
        return [(e.before, e.after, e.why) for e in await self.store.events(100) if e.what == "split:phi-3"]


@pytest.fixture
def desk() -> Desk:
    return Desk()


async def test_a_good_split_is_accepted_and_told(desk: Desk) -> None:
    await desk.types(phi="950", canary="50")
    assert (await desk.in_force(), await desk.refused()) == (GOOD, None)
    assert await desk.told() == [("", GOOD, "set")]
    assert await desk.store.clear_field("split:phi-3", "phi-3")
    assert await desk.store.clear_field("split:phi-3", "canary")
    await desk.decides()
    assert await desk.in_force() is None
    assert (await desk.told())[-1] == (GOOD, "", "cleared")


async def test_a_bad_split_is_refused_and_the_last_good_one_stays_also_after_a_restart(desk: Desk) -> None:
    await desk.types(phi="950", canary="50")
    await desk.types(canary="60")
    why = f"its shares sum to 1010; they have to sum to 1000; the last good split, {GOOD}, stays in force"
    assert (await desk.in_force(), await desk.refused()) == (GOOD, why)
    await desk.controller.resign()
    desk.controller = Controller(desk.store, TOPOLOGY, clock=desk.clock)
    await desk.decides()
    assert (await desk.in_force(), await desk.refused()) == (GOOD, why)
    await desk.types(phi="940")
    assert (await desk.in_force(), await desk.refused()) == ("phi-3=940 canary=60", None)


async def test_an_emptied_store_gets_the_split_back_and_what_is_in_force_with_it(desk: Desk) -> None:
    await desk.types(phi="950", canary="50")
    await desk.decides()
    desk.empty()
    await desk.controller.tick()
    assert await desk.in_force() == GOOD
    assert (await desk.store.operator_keys((), ["phi-3"])).splits == {"phi-3": {"phi-3": "950", "canary": "50"}}


async def test_a_split_that_is_typed_into_an_emptied_store_wins_as_a_whole(desk: Desk) -> None:
    await desk.types(phi="950", canary="50")
    desk.empty()
    await desk.store.set_field("split:phi-3", "canary", "1000")
    await desk.controller.tick()
    assert (await desk.in_force(), await desk.refused()) == ("canary=1000", None)


async def test_readers_are_told_when_it_is_written_down(desk: Desk) -> None:
    await desk.decides()
    heard: list[str | None] = []

    async def listen() -> None:
        async for _ in desk.store.nudges():
            heard.append(await desk.in_force())  # noqa: PERF401 - each at its own time

    task = asyncio.create_task(listen())
    await asyncio.sleep(0)
    await desk.types(phi="950", canary="50")
    await until(lambda: GOOD in heard, what="a word after it was written")
    task.cancel()
