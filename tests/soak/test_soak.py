"""Nothing that changes in the gateway costs a request, is refused by Envoy, or stays unanswered."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.soak.change import MOST_UNACKED_MS, Soak
from tests.xds.conftest import Gateway

pytestmark = pytest.mark.envoy


async def soaked(gateway: Gateway, engines: Any, seconds: float) -> None:
    soak = Soak(gateway, await engines(4), random.Random(7))
    await soak.run(seconds)
    assert set(soak.outcomes) == {"200"}, soak.outcomes
    assert soak.nacks == []
    assert soak.oldest_unacked_ms < MOST_UNACKED_MS
    assert all(soak.steps[kind] for kind in ("add", "remove", "settings", "endpoints"))
    assert "error_state" not in (await gateway.admin("/config_dump?include_eds")).text


async def test_change_at_random_under_traffic(gateway: Gateway, engines: Any) -> None:
    await soaked(gateway, engines, 12)


@pytest.mark.soak
@pytest.mark.timeout(400)
async def test_three_minutes_of_change_at_random_under_traffic(gateway: Gateway, engines: Any) -> None:
    await soaked(gateway, engines, 180)
