"""A share of requests is mirrored: the client sees nothing of it, whatever becomes of the copies."""

from __future__ import annotations

from math import sqrt
from statistics import median

import pytest

from tests.conftest import wait_until
from tests.split.world import MODEL, SHADOWED, World

pytestmark = [pytest.mark.envoy, pytest.mark.redis]

COUNT = 120
LOOKS = 10
"""Equal counts in a row, 20 ms and a request apart, after which no copy is on its way."""


def ask(world: World, count: int = COUNT) -> list[float]:
    """Seconds of `count` requests of the model with shadows, all answered by the cluster that serves it."""
    told = world.answers([(f"u{number}", {}) for number in range(count)], SHADOWED)
    assert {one.cluster for one in told} == {"main"}
    return [one.seconds for one in told]


def settled(world: World) -> int:
    """How many requests the shadow recorded, once it gets no more."""
    seen = [-1]

    def still() -> bool:
        seen.append(len(world.received(world.shadow)))
        return len(seen) > LOOKS and len(set(seen[-LOOKS:])) == 1

    wait_until(still, what="no more copies")
    return seen[-1]


def mirrors(world: World) -> bool:
    """Whether the shadow gets copies: at the start Envoy may not know yet that it serves."""
    before = settled(world)
    ask(world, 10)
    return settled(world) > before


def test_the_share_of_the_file_is_mirrored_and_no_other_model(world: World) -> None:
    """One half goes to the shadow; of the other shadow nobody listens, and nobody notices."""
    wait_until(lambda: mirrors(world), what="copies")
    before = settled(world)
    ask(world)
    copies = settled(world) - before
    assert abs(copies - COUNT / 2) < 4 * sqrt(COUNT / 4)
    world.ask_all([("u", {})] * 50, MODEL)
    assert settled(world) - before == copies


def test_a_copy_is_the_whole_request_under_the_same_name(world: World) -> None:
    before = settled(world)
    ask(world, 20)
    wait_until(lambda: settled(world) > before, what="a copy")
    (copy,), (own,) = world.received(world.shadow, last=1), world.received(world.main, last=1)
    assert copy["path"] == own["path"]
    assert copy["sha256"] in {one["sha256"] for one in world.received(world.main, last=20)}


@pytest.mark.parametrize("kind", ["hang", "error"])
def test_a_shadow_that_fails_is_no_trouble_of_the_client(world: World, kind: str) -> None:
    good = median(ask(world))
    world.fault(world.shadow, kind)
    try:
        bad = median(ask(world))
    finally:
        world.fault(world.shadow, "none")
    assert bad < 10 * good + 0.5
