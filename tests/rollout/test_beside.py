"""The other duties about versions: a split's history, and versions that serve nobody."""

from __future__ import annotations

from typing import Any

import pytest

from controller.rollouts.history import SplitHistory
from controller.rollouts.silent import SilentVersions
from tests.controller.world import Clock
from tests.rollout.desk import MODEL, TOPOLOGY
from tests.rollout.figures import figures, told
from tidegate.domain.lease import Lease
from tidegate.domain.outcomes.report import Report
from tidegate.store.memory import MemoryStore


class Desk:
    """A leader, whose lease the test keeps."""

    def __init__(self) -> None:
        self.clock: Any = Clock()  # type: ignore[no-untyped-call]
        self.store = MemoryStore(self.clock)
        self.history, self.silent = SplitHistory(self.store, TOPOLOGY), SilentVersions(self.store, TOPOLOGY)
        self.lease: Lease | None = None

    async def look(self, seconds: int = 1) -> None:
        for _ in range(seconds):
            self.clock.at_ms += 1000
            if self.lease is None:
                self.lease = await self.store.take_lead("c", ttl_ms=3_600_000)
            assert self.lease is not None
            await self.history.tick(self.lease)
            await self.silent.tick(self.lease)

    async def finds(self, *pairs: list[str], instance: str = "e1") -> None:
        """An instance of ext_proc tells what it found silent."""
        await self.store.beat("ext_proc", instance, {"silent_versions": pairs}, ttl_ms=3_600_000)

    async def said(self) -> list[tuple[str, str, str]]:
        return [(event.what, event.before, event.after) for event in await self.store.events(100)]


@pytest.fixture
def desk() -> Desk:
    return Desk()


async def test_a_line_at_each_change_and_one_every_ten_seconds(desk: Desk) -> None:
    await desk.look(25)
    assert [line.why for line in await desk.store.split_history(MODEL, 100)] == ["", "", ""]
    await desk.store.set_field("tuned", f"split:{MODEL}", "stable=900 canary=100")
    await desk.look()
    line = (await desk.store.split_history(MODEL, 1))[0]
    shares = {name: row["share_permille"] for name, row in line.versions.items()}
    assert (line.why, shares) == ("changed", {"stable": 900, "canary": 100})
    assert line.versions["canary"]["requests"] is None


async def test_a_line_has_what_versions_did(desk: Desk) -> None:
    versions = {MODEL: {"stable": told(figures(90)), "canary": told(figures(10, faults=5))}}
    await desk.store.tell_outcomes("o", Report(versions=versions, run="r"), ttl_ms=60_000)
    await desk.look()
    row = (await desk.store.split_history(MODEL, 1))[0].versions["canary"]
    assert (row["requests"], row["seen_permille"], row["error_rate"]) == (10, 100.0, 0.5)


async def test_a_version_that_serves_nobody_is_told_once_for_all_instances(desk: Desk) -> None:
    await desk.finds([MODEL, "canary"])
    await desk.look(3)
    await desk.finds([MODEL, "canary"], instance="e2")
    await desk.look(30)
    assert await desk.said() == [("version:m canary", "serves", "serves nobody")]


async def test_it_serves_again_once_nobody_has_found_it_silent_for_a_while(desk: Desk) -> None:
    await desk.finds([MODEL, "canary"])
    await desk.look(2)
    for _ in range(5):  # it comes and goes
        await desk.finds()
        await desk.look(4)
        await desk.finds([MODEL, "canary"])
        await desk.look()
    assert len(await desk.said()) == 1
    await desk.finds()
    await desk.look(11)
    assert (await desk.said())[1:] == [("version:m canary", "serves nobody", "serves")]


async def test_a_successor_does_not_say_it_again(desk: Desk) -> None:
    await desk.finds([MODEL, "canary"])
    await desk.look()
    assert desk.lease is not None
    await desk.store.resign(desk.lease)
    desk.lease, desk.silent = None, SilentVersions(desk.store, TOPOLOGY)
    await desk.look(3)
    assert len(await desk.said()) == 1


async def test_beats_that_say_something_else_are_ignored(desk: Desk) -> None:
    await desk.store.beat("ext_proc", "old", {}, ttl_ms=60_000)
    await desk.store.beat("ext_proc", "odd", {"silent_versions": [["m"], "x", 7, [MODEL, "gone"]]}, ttl_ms=60_000)
    await desk.look()
    assert await desk.said() == []
