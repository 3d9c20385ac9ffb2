"""A share of requests is mirrored: the client sees nothing of it, whatever becomes of the copies."""

from __future__ import annotations

from math import sqrt

import pytest

from tests.conftest import wait_until
from tests.split.world import MODEL, SHADOWED, World

pytestmark = [pytest.mark.envoy, pytest.mark.redis]

COUNT = 120
ERRORS = 5.3
"""Standard errors: further off are less than one in a million counts."""


def ask(world: World, count: int = COUNT) -> None:
    """So many requests of the model with shadows, all answered by the cluster that serves it."""
    told = world.answers([(f"u{number}", {}) for number in range(count)], SHADOWED)
    assert {one.cluster for one in told} == {"main"}


def sent(world: World) -> int:
    """How many copies Envoy has sent to the shadow, once none is on its way: it sends them before the client's answer."""
    stats = [f"cluster.shadow.upstream_rq_{kind}" for kind in ("pending_active", "active")]
    wait_until(lambda: not any(map(world.envoy_stat, stats)), what="no more copies")
    return world.envoy_stat("cluster.shadow.upstream_rq_total")


def mirrors(world: World) -> bool:
    """Whether the shadow gets copies: at the start Envoy may not know yet that it serves."""
    before = sent(world)
    ask(world, 10)
    return sent(world) > before


def test_the_share_of_the_file_is_mirrored_and_no_other_model(world: World) -> None:
    """One half goes to the shadow; of the other shadow nobody listens, and nobody notices."""
    wait_until(lambda: mirrors(world), what="copies")
    before = sent(world)
    ask(world)
    copies = sent(world) - before
    assert abs(copies - COUNT / 2) < ERRORS * sqrt(COUNT / 4)
    world.ask_all([("u", {})] * 50, MODEL)
    assert sent(world) - before == copies


def test_a_copy_is_the_whole_request_under_the_same_name(world: World) -> None:
    wait_until(lambda: mirrors(world), what="a copy")
    (copy,), (own,) = world.received(world.shadow, last=1), world.received(world.main, last=1)
    assert copy["path"] == own["path"]
    assert copy["sha256"] in {one["sha256"] for one in world.received(world.main, last=20)}


def test_a_shadow_that_hangs_is_no_trouble_of_the_client(world: World) -> None:
    wait_until(lambda: mirrors(world), what="copies")
    world.fault(world.shadow, "hang")
    try:
        ask(world)
        assert world.envoy_stat("cluster.shadow.upstream_rq_active") > 0, (
            "every answer came while copies wait for theirs"
        )
    finally:
        world.engines.kill(world.shadow)
        world.start(world.shadow)


def test_a_shadow_that_fails_is_no_trouble_of_the_client(world: World) -> None:
    wait_until(lambda: mirrors(world), what="copies")
    before = world.envoy_stat("cluster.shadow.upstream_rq_5xx")
    world.fault(world.shadow, "error")
    try:
        ask(world)
        sent(world)
        assert world.envoy_stat("cluster.shadow.upstream_rq_5xx") > before
    finally:
        world.fault(world.shadow, "none")
