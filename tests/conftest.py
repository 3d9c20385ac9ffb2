"""Real parts for tests: a Redis, Envoys, free ports. Everything started is ended."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadScopeScheduling

from tests.ports import take_free_port
from tidegate.cli.binaries import envoy_binary, redis_cli_binary, redis_server_binary
from tidegate.store.redis import RedisStore

# A busy machine is no fault of the property under test. The suite tries the same examples each time;
# HYPOTHESIS_PROFILE=explore tries others.
settings.register_profile("explore", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("tidegate", settings.get_profile("explore"), derandomize=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "tidegate"))

# Nothing here leaves the loopback. Each process and each client would read all authorities of the machine, which takes
# as long as half of an engine's imports; those started here trust one, of which nobody has the key.
os.environ["SSL_CERT_FILE"] = str(Path(__file__).parent / "nobody.pem")


LONG: Final = ("up", "fail_static", "deploy", "chaos", "rollout", "split", "soak", "outcomes", "flow", "actions")
"""Folders whose few tests start whole clusters: they begin first, so that no worker is left alone with them."""


ONE_WORLD: Final = frozenset({"fail_static", "flow", "gateway", "metrics", "split", "tls"})
"""Folders whose files share what they start: one worker runs them all."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """LONG first, in that order; within a file nothing moves."""
    order = {name: place for place, name in enumerate(LONG)}
    here = Path(__file__).parent
    folders = {item: item.path.relative_to(here).parts[0] for item in items}
    items.sort(key=lambda item: order.get(folders[item], len(order)))


class ByWorld(LoadScopeScheduling):
    """One worker runs all of a file, and of a folder of ONE_WORLD.

    Groups of xdist 3.8 are a part of a test's id, which pytest 9.2 lets nobody change: each test would go its own way,
    and each worker start a world of its own for the tests of one file.
    """

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        folder = Path(file).parts[1]
        return folder if folder in ONE_WORLD else file


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByWorld | None:
    return ByWorld(config, log) if config.getoption("dist") == "loadgroup" else None


@pytest.fixture
def free_port() -> Callable[[], int]:
    return take_free_port


def wait_until(condition: Callable[[], object], *, deadline_seconds: float = 60.0, what: str = "condition") -> None:
    """Block until `condition()` is true; AssertionError after the deadline. Exceptions of OSError count as false."""
    end = time.monotonic() + deadline_seconds
    while True:
        began = time.monotonic()
        try:
            if condition():
                return
        except OSError:
            pass
        assert time.monotonic() < end, f"{what} did not hold within {deadline_seconds} s"
        time.sleep(_pause_after(began))


def _pause_after(began: float) -> float:
    """Seconds until the next look: a costly look is taken less often, so as not to hold up what it waits for."""
    return min(max(0.02, 3 * (time.monotonic() - began)), 0.2)


async def until(
    condition: Callable[[], object | Awaitable[object]],
    *,
    deadline_seconds: float = 60.0,
    what: str = "condition",
) -> None:
    """Like wait_until, for coroutines: the loop runs on."""
    end = time.monotonic() + deadline_seconds
    while True:
        began = time.monotonic()
        result = condition()
        if asyncio.iscoroutine(result):
            result = await result
        if result:
            return
        assert time.monotonic() < end, f"{what} did not hold within {deadline_seconds} s"
        await asyncio.sleep(_pause_after(began))


def accepts(port: int) -> bool:
    """Whether something listens on the loopback port."""
    with socket.socket() as sock:
        sock.settimeout(0.5)
        return sock.connect_ex(("127.0.0.1", port)) == 0


@dataclass
class RedisServer:
    """A real redis-server that tests may stop and start again."""

    folder: Path
    port: int = field(default_factory=take_free_port)
    arguments: tuple[str, ...] = ()
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        command = [redis_server_binary(), "--port", str(self.port), "--bind", "127.0.0.1", "--save", ""]
        command += ["--dir", str(self.folder), *self.arguments]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_until(lambda: accepts(self.port), what="redis-server listening")

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def cli(self, *arguments: str) -> str:
        """What plain `redis-cli` prints for these arguments."""
        command = [redis_cli_binary(), "-p", str(self.port), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        return (done.stdout + done.stderr).strip()


@pytest.fixture(scope="session")
def shared_redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    server = RedisServer(tmp_path_factory.mktemp("redis"))
    server.start()
    yield server
    server.stop()


@pytest.fixture
def redis_server(shared_redis: RedisServer) -> RedisServer:
    """The session's Redis, emptied. Do not stop it; `own_redis` is for that."""
    shared_redis.cli("FLUSHALL")
    return shared_redis


PATIENT_SECONDS: Final = 60.0
"""For what a busy machine delays, where a test is not of the time limit itself."""


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stores that this process opens, those of the command line too, wait for Redis longer than the second they would.

    A process that stands still for that long has given up before it sees an answer that has come.
    """
    limits = RedisStore.__init__.__kwdefaults__
    assert limits is not None
    monkeypatch.setitem(limits, "timeout_seconds", PATIENT_SECONDS)


@pytest.fixture
def redis_url(redis_server: RedisServer) -> str:
    return redis_server.url


@pytest.fixture
def redis_cli(redis_server: RedisServer) -> Callable[..., str]:
    return redis_server.cli


@pytest.fixture
def own_redis(tmp_path: Path) -> Iterator[RedisServer]:
    """A Redis of this test alone, started; it may be stopped, paused and started again."""
    server = RedisServer(tmp_path)
    server.start()
    yield server
    server.stop()


@dataclass
class EnvoyProcess:
    """A real Envoy running a bootstrap."""

    process: subprocess.Popen[bytes]
    log: Path

    def stop(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


@pytest.fixture
async def envoy(tmp_path: Path) -> AsyncIterator[Callable[[str], EnvoyProcess]]:
    """`envoy(bootstrap_text)` starts an Envoy on that bootstrap; all are ended with the test."""
    started: list[EnvoyProcess] = []

    def start(bootstrap: str) -> EnvoyProcess:
        number = len(started)
        path, log = tmp_path / f"bootstrap{number}.yaml", tmp_path / f"envoy{number}.log"
        path.write_text(bootstrap)
        command = [envoy_binary(), "-c", path, "--concurrency", "1", "--disable-hot-restart"]
        command += ["--log-path", log, "--log-level", "warning"]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        started.append(EnvoyProcess(process, log))
        return started[-1]

    yield start
    for one in started:
        one.stop()
