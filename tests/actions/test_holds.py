"""What ext_proc answers to requests that acts hold, and what it follows."""

from __future__ import annotations

import asyncio

import pytest

from ext_proc.flow.holds import LATE_SECONDS, Holds
from tests.actions.acts import NOW_MS, act
from tests.conftest import until
from tidegate.domain.actions.act import Act
from tidegate.domain.actions.effects import NONE, summed
from tidegate.domain.refusal import Reason
from tidegate.store.memory import MemoryStore
from tidegate.store.nudged import Nudged
from tidegate.store.ports import ClusterDecision


def held(until_ms: int | None) -> Act:
    one = act("hold", classes=("batch",))
    return Act(id="h", deed=one.deed, rule="r", cause="alert X", since_ms=NOW_MS, until_ms=until_ms)


@pytest.mark.parametrize(
    ("left_ms", "expected"), [(1, 1), (2_500, 3), (60_000, 60), (3_600_000, 60), (-5_000, 1), (None, 60)]
)
def test_retry_after_is_what_is_left_within_a_minute(left_ms: int | None, expected: int) -> None:
    holds = Holds(["phi-3"], lambda: NOW_MS)
    holds.effects = summed([held(None if left_ms is None else NOW_MS + left_ms)])
    refusal = holds.refusal("phi-3", "phi", "batch", 0)
    assert refusal is not None
    assert (refusal.reason, refusal.retry_after_seconds) == (Reason.HELD, expected)
    assert holds.refusal("phi-3", "phi", "default", 0) is None


def test_a_hold_whose_time_is_over_ends_where_no_controller_says_so() -> None:
    holds = Holds(["phi-3"], lambda: NOW_MS)
    holds.effects = summed([held(NOW_MS - LATE_SECONDS * 1_000)])
    assert holds.refusal("phi-3", "phi", "batch", 0) is None


async def test_a_hold_is_followed_at_a_word_stays_in_an_emptied_store_and_ends() -> None:
    store = MemoryStore(lambda: NOW_MS)
    holds, nudged = Holds(["phi-3"], lambda: NOW_MS), Nudged(store)
    tasks = [asyncio.create_task(nudged.listen()), asyncio.create_task(holds.follow(store, nudged, 60.0))]
    try:
        await until(lambda: len(store._nudged) == 1, what="listening")
        await store.write_acts("alerts", [held(None)], [])
        await store.nudge()
        await until(lambda: holds.effects != NONE, what="the hold")
        await store.write_acts("alerts", [], [])
        await store.nudge()
        await until(lambda: not nudged._heard.is_set(), what="the look at a store without weights")
        assert holds.effects != NONE
        await store.write_decisions([ClusterDecision("phi-3", {"10.0.0.5:8000": 500})], {}, [])
        await store.nudge()
        await until(lambda: holds.effects == NONE, what="the end")
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
