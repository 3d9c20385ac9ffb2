"""Faults: a replica gets less before anybody is called, and grows back; a failing cluster is not tried twice."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from controller.actions.instruments import ActionInstruments
from controller.healing.duty import SOURCE, Healing, minute_of
from tests.controller.world import TOPOLOGY, A, B, Clock
from tidegate.domain.actions.act import Kind
from tidegate.domain.faults import Ends
from tidegate.domain.healing import DEFAULT, HealSettings, part_of, retries_cut, told
from tidegate.domain.lease import Lease
from tidegate.domain.outcomes.ending import ENDINGS
from tidegate.domain.outcomes.report import Report
from tidegate.domain.outcomes.tally import Told
from tidegate.store.memory import MemoryStore

CLUSTER = "phi-3"
WELL = Ends(faults=0, answers=300)


@pytest.mark.parametrize(
    ("own", "others", "before", "part"),
    [
        (Ends(0, 100), WELL, 1.0, 1.0),
        (Ends(10, 90), WELL, 1.0, 1.0),
        (Ends(20, 80), WELL, 1.0, 0.64),
        (Ends(50, 50), WELL, 1.0, 0.25),
        (Ends(100, 0), WELL, 1.0, 0.05),
        (Ends(19, 0), WELL, 1.0, 1.0),
        (Ends(50, 50), Ends(50, 50), 1.0, 1.0),
        (Ends(50, 50), Ends(60, 240), 1.0, 0.390625),
        (Ends(50, 50), Ends(0, 0), 1.0, 1.0),
        (Ends(8, 92), WELL, 0.5, 0.6),
        (Ends(5, 95), WELL, 0.5, 0.6),
        (Ends(0, 0), WELL, 0.5, 0.6),
    ],
    ids=[
        "well",
        "at the threshold",
        "0.8 squared",
        "half",
        "faults alone keep a little",
        "too few to tell",
        "all fail alike",
        "the others fail too",
        "nobody else",
        "growing back to 0.85",
        "well again, slowly",
        "unseen, slowly",
    ],
)
def test_a_replica_gets_the_part_that_its_faults_leave_it(own: Ends, others: Ends, before: float, part: float) -> None:
    assert part_of(own, others, before, 12.0, DEFAULT) == pytest.approx(part)


counts = st.integers(0, 500)


@given(counts, counts, st.integers(1, 100), st.builds(Ends, counts, counts), st.floats(0.05, 1.0), st.floats(0, 60))
def test_more_faults_never_mean_more_traffic_and_the_part_stays_between_its_least_and_one(
    faults: int, answers: int, more: int, others: Ends, before: float, seconds: float
) -> None:
    worse = Ends(faults + min(more, answers), answers - min(more, answers))
    part = part_of(Ends(faults, answers), others, before, seconds, DEFAULT)
    assert part_of(worse, others, before, seconds, DEFAULT) <= part
    assert DEFAULT.least <= part <= 1.0
    assert part <= max(before, before + seconds / DEFAULT.recover_seconds) + 1e-9


def test_parts_are_told_in_steps_and_never_as_nothing() -> None:
    assert [told(part) for part in (0.0, 0.05, 0.07, 0.08, 0.64, 1.0)] == [0.05, 0.05, 0.05, 0.1, 0.65, 1.0]


@pytest.mark.parametrize(
    ("ends", "before", "cut"),
    [
        (Ends(10, 90), False, False),
        (Ends(11, 89), False, True),
        (Ends(6, 94), True, True),
        (Ends(6, 94), False, False),
        (Ends(5, 95), True, False),
        (Ends(19, 0), False, None),
    ],
    ids=["at 10 %", "above", "still above 5 %", "not yet", "below", "too few"],
)
def test_retries_end_above_a_ratio_and_return_at_half_of_it(ends: Ends, before: bool, cut: bool | None) -> None:
    assert retries_cut(ends, DEFAULT, before=before) is cut


# --- the duty -----------------------------------------------------------------------------------------------


def ended(**counts: int) -> Told:
    listed = [counts.get(str(one), 0) for one in ENDINGS]
    return Told(60_000, listed, 0, 0, 0, [], [], [], listed)


class World:
    """Two replicas whose minute the test says, on a store in memory."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.store = MemoryStore(self.clock)
        self.heir()
        self.lease: Lease | None = None

    def heir(self) -> None:
        self.registry = CollectorRegistry()
        seconds = lambda: self.clock() / 1000  # noqa: E731
        self.duty = Healing(self.store, TOPOLOGY, ActionInstruments(self.registry), seconds)

    async def lead(self, instance: str = "a") -> None:
        self.lease = await self.store.take_lead(instance, ttl_ms=10**12)

    async def look(self, looks: int = 1, **minutes: Told) -> None:
        for _ in range(looks):
            self.clock.at_ms += 2_000
            report = Report({CLUSTER: {{"a": A, "b": B}[name]: told for name, told in minutes.items()}})
            await self.store.tell_outcomes("o", report, ttl_ms=10_000)
            assert self.lease is not None
            await self.duty.tick(self.lease)

    async def reduced(self) -> dict[str, float]:
        effects = await self.store.effects()
        return {address: one.ratio for address, one in effects.reduced.get(CLUSTER, {}).items()}


@pytest.fixture
async def world() -> World:
    world = World()
    await world.lead()
    return world


SERVED = ended(served=100)
HALF = ended(served=50, fault=50)


async def test_a_replica_with_faults_is_reduced_at_once_and_grows_back_by_itself(world: World) -> None:
    await world.look(a=HALF, b=SERVED)
    assert await world.reduced() == {A: 0.25}
    await world.look(30, a=ended(served=10), b=SERVED)
    assert await world.reduced() == {A: 0.75}
    await world.look(20, a=SERVED, b=SERVED)
    assert await world.reduced() == {}
    began, over = [event for event in await world.store.events(10) if event.what == f"act:reduce {CLUSTER} {A}"]
    assert (began.who, began.after) == ("self-healing: 50% of 100 requests were faults", "× 0.25")
    assert over.why.startswith("faults are few again")
    assert world.registry.get_sample_value("tidegate_actions_total", {"kind": "reduce", "event": "began"}) == 1


async def test_a_replica_that_fails_while_it_grows_back_falls_again(world: World) -> None:
    await world.look(a=ended(fault=100), b=SERVED)
    await world.look(10, a=ended(fault=5), b=SERVED)
    assert await world.reduced() == {A: 0.2}
    await world.look(1, a=ended(fault=20), b=SERVED)
    assert await world.reduced() == {A: 0.05}


@pytest.mark.parametrize("kind", ["client_error", "back_pressure", "left", "refused"])
async def test_what_is_no_fault_reduces_nobody_and_cuts_nothing(world: World, kind: str) -> None:
    await world.look(a=ended(served=10, **{kind: 90}), b=SERVED)
    assert await world.store.acts(SOURCE) == []


@pytest.mark.parametrize("kind", ["client_error", "back_pressure"])
async def test_what_an_engine_answered_is_among_the_requests_that_its_faults_are_a_part_of(
    world: World, kind: str
) -> None:
    await world.look(a=ended(fault=25, **{kind: 225}), b=SERVED)
    assert await world.store.acts(SOURCE) == []


async def test_where_all_fail_alike_retries_are_cut_and_nobody_is_reduced(world: World) -> None:
    await world.look(a=HALF, b=HALF)
    [act] = await world.store.acts(SOURCE)
    assert (act.deed.kind, act.deed.to, act.rule) == (Kind.RETRIES, 0, "self-healing")
    assert (await world.store.effects()).retries == {CLUSTER: 0}
    assert world.registry.get_sample_value("tidegate_actions_in_force", {"kind": "retries"}) == 1
    await world.look(a=ended(served=93, fault=7), b=ended(served=93, fault=7))
    assert (await world.store.effects()).retries == {CLUSTER: 0}
    await world.look(a=ended(served=96, fault=4), b=ended(served=96, fault=4))
    assert (await world.store.effects()).retries == {}
    said = [event for event in await world.store.events(10) if event.what == f"act:retries {CLUSTER}"]
    assert [(event.before, event.after) for event in said] == [("", "to 0"), ("to 0", "")]


async def test_retries_stay_cut_for_a_minute_in_which_nobody_tells(world: World) -> None:
    await world.look(a=HALF, b=HALF)
    await world.look(29)
    assert (await world.store.effects()).retries == {CLUSTER: 0}
    await world.look(1)
    assert (await world.store.effects()).retries == {}


async def test_nothing_is_written_while_nothing_changes(world: World) -> None:
    await world.look(a=HALF, b=SERVED)
    before = await world.store.acts(SOURCE)
    await world.look(5, a=HALF, b=SERVED)
    assert await world.store.acts(SOURCE) == before
    assert len(await world.store.events(10)) == 2  # b is reduced by nothing; a's faults are 25 % of the cluster's


async def test_the_next_leader_goes_on_from_the_acts(world: World) -> None:
    await world.look(a=HALF, b=SERVED)
    before = await world.store.acts(SOURCE)
    assert world.lease is not None
    await world.store.resign(world.lease)
    world.heir()
    await world.lead("b")
    await world.look(a=HALF, b=SERVED)
    assert await world.store.acts(SOURCE) == before
    await world.look(30, a=ended(served=10), b=SERVED)
    assert await world.reduced() == {A: 0.75}


async def test_acts_of_an_emptied_store_are_written_back(world: World) -> None:
    await world.look(a=HALF, b=SERVED)
    before = await world.store.acts(SOURCE)
    world.store = world.duty._store = MemoryStore(world.clock)
    await world.lead()
    await world.look(a=HALF, b=SERVED)
    assert await world.store.acts(SOURCE) == before


async def test_operators_turn_it_off(world: World) -> None:
    await world.store.set_field("tune", "heal.reduce_at", "1")
    await world.store.set_field(f"tune:{CLUSTER}", "heal.retries_off_at", "1")
    await world.look(a=HALF, b=SERVED)
    assert await world.store.acts(SOURCE) == []


def test_instances_are_added_up() -> None:
    one = Report({CLUSTER: {A: HALF}})
    assert minute_of([one, one]) == {CLUSTER: {A: Ends(100, 100)}}


def test_a_stricter_least_holds() -> None:
    assert part_of(Ends(100, 0), WELL, 1.0, 0.0, HealSettings(least=0.3)) == 0.3
