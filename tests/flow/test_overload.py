"""Three times what the engines can serve, for a few seconds: the short form of `python -m bench --only overload`."""

from __future__ import annotations

import time
from statistics import median

import pytest

from bench.overload.figures import share, ttfts, unanswered
from bench.overload.load import Kind, Shape, send_all
from tests.conftest import until
from tests.flow.world import World

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
    began = time.monotonic()
    outcomes = await send_all(world.up.gateway, KINDS, Shape(), SECONDS)
    assert unanswered(outcomes) == 0
    assert {one.status for one in outcomes if one.kind == "urgent"} == {"200"}
    assert {one.status for one in outcomes} == {"200", "429", "hung up"}
    assert {one.reason for one in outcomes if one.status == "429"} <= {"saturated", "queue-timeout"}
    assert share(outcomes, "gold", ("gold", "silver"), began + 3, began + SECONDS) == pytest.approx(0.75, abs=0.1)
    assert median(ttfts(outcomes, "urgent")) < median(ttfts(outcomes, "gold"))
    await until(lambda: world.waiting() == 0, what="the queue is empty")
