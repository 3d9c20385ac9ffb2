"""One gateway for all tests of this folder, which leave it as they found it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.gateway.world import World, start_world
from tests.up.cluster import stop_up
from tests.up.engines import Engines


@pytest.fixture(scope="package")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    engines = Engines()
    try:
        one = start_world(tmp_path_factory.mktemp("gateway"), engines)
        yield one
        stop_up(one.up)
    finally:
        engines.stop()
