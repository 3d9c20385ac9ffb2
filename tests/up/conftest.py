"""Local clusters for tests: one shared by tests that harm nothing, or one of a test's own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import wait_until
from tests.ports import take_free_port
from tests.up.cluster import Up, chat, start_up, stop_up
from tests.up.engines import Engines
from tests.up.pair import CLUSTER, Pair


@pytest.fixture(scope="module")
def local_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """`tidegate up` as it comes, engines fifty times as fast. Tests leave it as they found it.

    It ends with its file: a cluster that idles takes half a CPU from the files after it.
    """
    cluster = start_up(tmp_path_factory.mktemp("up"), "--time-scale", "50")
    try:
        for model in ("phi-3", "qwen2.5-72b"):
            wait_until(lambda model=model: cluster.answers(chat(model)), what=f"{model} served")  # type: ignore[misc]
        image = {"model": "sdxl", "prompt": "a gate", "size": "256x256"}
        wait_until(lambda: cluster.answers(image, "/v1/images/generations"), what="sdxl served")
        yield cluster
    finally:
        stop_up(cluster)


@pytest.fixture
def own_cluster(tmp_path: Path) -> Iterator[Callable[..., Up]]:
    """`own_cluster(*flags, config=…)` starts a cluster of this test alone."""
    started: list[Up] = []

    def start(*flags: str, config: dict[str, Any] | None = None) -> Up:
        folder = tmp_path / str(len(started))
        folder.mkdir()
        started.append(start_up(folder, *flags, config=config, executed=True))
        return started[-1]

    yield start
    for cluster in started:
        stop_up(cluster)


@pytest.fixture
def engines() -> Iterator[Engines]:
    started = Engines()
    yield started
    started.stop()


@pytest.fixture(scope="module")
def module_pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    one, two = (f"127.0.0.1:{take_free_port()}" for _ in range(2))
    config = {
        "gateway": {"listen": "127.0.0.1:0"},
        "clusters": [
            {"name": CLUSTER, "models": ["m"], "lb": "weighted", "endpoints": [{"address": one}, {"address": two}]}
        ],
    }
    engines = Engines()
    try:
        for address in (one, two):
            engines.start(address, "--model", "m", "--time-scale", "100")
        pair = Pair(start_up(tmp_path_factory.mktemp("pair"), config=config), one, two)
        yield pair
        stop_up(pair.up)
    finally:
        engines.stop()


@pytest.fixture
def pair(module_pair: Pair) -> Iterator[Pair]:
    """One cluster for all tests of a file; no test's orders outlive it."""
    wait_until(lambda: len(module_pair.shares(4)) == 2, what="both replicas serving")
    yield module_pair
    module_pair.forget_orders()
