"""One gateway for the tests of this folder that need real parts; they leave it as they found it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conftest import wait_until
from tests.flow.world import World, start_world
from tests.up.cluster import stop_up
from tests.up.engines import Engines


@pytest.fixture(scope="package")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    engines = Engines()
    try:
        world = start_world(tmp_path_factory.mktemp("flow"), engines)
        yield world
        stop_up(world.up)
    finally:
        engines.stop()


@pytest.fixture
def world(running: World) -> Iterator[World]:
    yield running
    running.forget_tunes()
    for index in range(2):
        running.fault(index, "none")
    wait_until(lambda: running.waiting() == 0, deadline_seconds=60, what="an empty queue")
