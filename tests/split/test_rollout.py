"""A rollout through a real Envoy, with figures that its access log told: a canary with faults goes back by itself."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.conftest import wait_until
from tests.split.world import MODEL, World
from tidegate.domain.rollout.course import Phase

pytestmark = [pytest.mark.envoy, pytest.mark.redis]

KEY = f"tidegate:rollout:{MODEL}"


@pytest.fixture
def faulty(world: World) -> Iterator[World]:
    """A fifth of the canary's answers are faults."""
    canaries = (world.canary, world.second)
    for address in canaries:
        fault = {"fault": "error", "status": 500, "share": 0.2}
        httpx.post(f"http://{address}/sim/fault", json=fault, timeout=60).raise_for_status()
    yield world
    for address in canaries:
        world.fault(address, "none")
    world.up.redis("DEL", KEY)


def test_a_canary_with_a_fifth_of_faults_goes_back_by_itself(faulty: World) -> None:
    world, met = faulty, Counter[tuple[str, int]]()
    world.up.redis("HSET", KEY, "to", "canary", "steps", "50,100", "hold", "5m")
    world.wait_in_force(MODEL, {"stable": 500, "canary": 500})

    def goes_back() -> bool:
        asked: list[tuple[str, dict[str, str]]] = [(f"user-{met.total() + number}", {}) for number in range(40)]
        met.update((one.cluster, one.status) for one in world.ask_all(asked))
        return world.share(MODEL, "canary") == 0

    wait_until(goes_back, what=f"the way back after {met}")
    wait_until(lambda: state_of(world)["phase"] == Phase.ROLLED_BACK, what="the rollout saying so")
    state = state_of(world)
    assert "of the canary's requests were faults, 0.00% " in state["why"]
    assert met["stable", 500] == 0
    assert set(world.sides(f"later-{number}" for number in range(20))) == {"stable"}
    told = world.up.ask(lambda store: store.events(100))
    assert "rolled back" in {event.after for event in told if event.what == f"rollout:{MODEL}"}


def state_of(world: World) -> dict[str, Any]:
    return dict(json.loads(world.up.redis("HGET", KEY, "state")))
