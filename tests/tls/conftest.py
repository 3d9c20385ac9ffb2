"""One world for the tests of this folder, which leave it as they found it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conftest import RedisServer
from tests.tls.world import World


@pytest.fixture(scope="package")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    redis = RedisServer(tmp_path_factory.mktemp("redis"))
    redis.start()
    one = World(tmp_path_factory.mktemp("tls"), redis.url)
    try:
        one.start()
        yield one
    finally:
        one.stop()
        redis.stop()
