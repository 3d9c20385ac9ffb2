"""The gateway of the xDS tests, here for longer, and real services that are steered through Redis."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from tests.conftest import EnvoyProcess, RedisServer
from tests.soak.live import Live
from tests.xds.conftest import engines, gateway
from tidegate.store.redis import RedisStore

__all__ = ["engines", "gateway"]


@pytest.fixture
async def live(own_redis: RedisServer, tmp_path: Path, envoy: Callable[[str], EnvoyProcess]) -> AsyncIterator[Live]:
    one = Live(own_redis, tmp_path, envoy)
    yield one
    await one.stop()


@pytest.fixture
async def store(own_redis: RedisServer) -> AsyncIterator[RedisStore]:
    one = RedisStore(own_redis.url, timeout_seconds=10)
    yield one
    await one.close()
