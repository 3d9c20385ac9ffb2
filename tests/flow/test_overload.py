"""Three times what the engines can serve, for a few seconds: the short form of `python -m bench --only overload`."""

from __future__ import annotations

import asyncio
from collections import Counter
from itertools import pairwise
from statistics import median

import pytest

from bench.overload.figures import ttfts, unanswered
from bench.overload.load import HUNG_UP, Kind, Shape, send_all
from tests.conftest import until
from tests.flow.world import Look, World

pytestmark = [pytest.mark.envoy, pytest.mark.redis]

SECONDS = 8.0
MOST = 40
KINDS = (
    Kind(name="urgent", per_second=1.0, headers={"x-tidegate-priority": "high"}),
    Kind(name="gold", per_second=14.0, headers={"x-tier": "gold"}, hang_up_ratio=0.05),
    Kind(name="silver", per_second=14.0, headers={"x-tier": "silver"}, hang_up_ratio=0.05),
)
"""Two engines of 2,032 KV tokens serve about nine requests of 300 and 64 tokens a second."""


async def test_the_urgent_pass_classes_share_and_everybody_is_answered(world: World) -> None:
    world.tune(max_requests=MOST, timeout_ms=4000)
    sending = asyncio.create_task(send_all(world.up.gateway, KINDS, Shape(), SECONDS))
    looks = await looks_during(sending, world)
    outcomes = await sending
    assert unanswered(outcomes) == 0
    assert {one.status for one in outcomes if one.kind == "urgent"} == {"200"}
    assert {one.status for one in outcomes} - {HUNG_UP} == {"200", "429"}
    assert {one.reason for one in outcomes if one.status == "429"} <= {"saturated", "queue-timeout"}
    placed = placed_in_turns(looks)
    both = placed["gold"] + placed["silver"]
    assert both > 8
    assert abs(placed["gold"] - 0.75 * both) <= 0.1 * both + 2, placed
    assert median(ttfts(outcomes, "urgent")) < median(ttfts(outcomes, "gold"))
    await until(lambda: world.waiting() == 0, what="the queue is empty")


async def looks_during(task: asyncio.Task[object], world: World) -> list[Look]:
    looks = []
    while not task.done():
        looks.append(await asyncio.to_thread(world.look))
        await asyncio.wait([task], timeout=0.1)
    return looks


def placed_in_turns(looks: list[Look]) -> Counter[str]:
    """By class, while both had somebody waiting: how long that lasts is the machine's affair."""
    placed = Counter[str]()
    for before, after in pairwise(looks):
        if all(look.waiting[name] for look in (before, after) for name in ("gold", "silver")):
            placed += after.placed - before.placed
    return placed
