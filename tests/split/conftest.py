"""One gateway for all tests of this folder that need Envoy; each leaves the file's splits in force."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.split.world import World, start_world
from tests.up.cluster import stop_up
from tests.up.engines import Engines


@pytest.fixture(scope="package")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    engines = Engines()
    try:
        one = start_world(tmp_path_factory.mktemp("split"), engines)
        yield one
        stop_up(one.up)
    finally:
        engines.stop()


@pytest.fixture
def world(gateway: World) -> Iterator[World]:
    gateway.no_split()
    yield gateway
    gateway.no_split()
