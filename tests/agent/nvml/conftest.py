"""The stand-in driver, compiled once a session, and readers on it."""

from __future__ import annotations

import pytest

from metrics_agent.gpu.process import NvmlGpus
from tests.agent.nvml.fake import VARIABLE, FakeDriver, build, compiler


@pytest.fixture(scope="session")
def library(tmp_path_factory):
    """The folder of the stand-in library."""
    if compiler() is None:
        pytest.skip("no C compiler (cc, gcc or clang): the stand-in for libnvidia-ml.so.1 cannot be built")
    return build(tmp_path_factory.mktemp("nvml"))


@pytest.fixture(scope="session")
def old_library(library, tmp_path_factory):
    """A library from before MIG, memory version 2 and nvmlInitWithFlags."""
    return build(tmp_path_factory.mktemp("nvml-old"), "-DOLD")


@pytest.fixture(scope="session")
def newest_library(library, tmp_path_factory):
    """A library without the deprecated question for temperature."""
    return build(tmp_path_factory.mktemp("nvml-newest"), "-DNEWEST")


@pytest.fixture
def driver(library, tmp_path, monkeypatch):
    """A scripted driver, found by every process that the test starts."""
    one = FakeDriver(tmp_path)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(library))
    monkeypatch.setenv(VARIABLE, str(one.path))
    return one


@pytest.fixture
async def reader():
    """`reader()` starts a reader, which a busy machine does not make `hung`; all are stopped with the test."""
    started = []

    def start(interval_seconds=0.02, deadline_seconds=60.0):
        one = NvmlGpus(interval_seconds, deadline_seconds)
        one.start()
        started.append(one)
        return one

    yield start
    for one in started:
        await one.stop()
