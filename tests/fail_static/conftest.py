"""A whole gateway on a Redis of the tests' own: one cluster of the file, one that only an agent registers."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests import forked
from tests.conftest import RedisServer, wait_until
from tests.ports import take_free_port
from tests.up.cluster import Load, chat, start_up, stop_up
from tests.up.engines import Engines

WATCHED = ("agent", "controller", "xds", "ext_proc")
SAMPLE_SECONDS = 1.0
"""Until a sample is stale: a third of what services take unless told, since every test here waits for it."""
TTL = {f"TIDEGATE_{one}_SAMPLE_TTL_MS": f"{1000 * SAMPLE_SECONDS:.0f}" for one in ("AGENT", "EXT_PROC", "XDS")}


@dataclass
class World:
    """`up` on `redis`; replicas 1 and 2 are of `filed`, 3 and 4 of `joined`, which agents register."""

    redis: RedisServer
    folder: Path
    engines: Engines = field(default_factory=Engines)
    addresses: list[str] = field(default_factory=lambda: [f"127.0.0.1:{take_free_port()}" for _ in range(4)])
    up: Any = None
    agent: forked.Forked | None = None

    def start(self) -> None:
        self.redis.start()
        for number, address in enumerate(self.addresses):
            self.engines.start(address, "--model", "filed" if number < 2 else "joined", "--time-scale", "50")
        filed = [{"address": address} for address in self.addresses[:2]]
        clusters = [
            {"name": "filed", "models": ["filed"], "endpoints": filed},
            {"name": "joined", "models": ["joined"], "lb": "weighted"},
        ]
        self.up = start_up(self.folder, "--redis-url", self.redis.url, config={"clusters": clusters}, env=TTL)
        self.start_agent()
        wait_until(self.is_whole, what="every replica serving")
        for model in ("filed", "joined"):
            wait_until(lambda model=model: self.up.answers(chat(model)), what=f"{model} served")  # type: ignore[misc]

    def start_agent(self) -> None:
        """The agent of the registered replicas."""
        engines = [part for address in self.addresses[2:] for part in ("--engine", f"joined={address}")]
        flags = ("--redis-url", self.redis.url, "--node", "other", *engines)
        self.agent = forked.start("agent", *flags, cwd=self.folder, env=TTL)

    def kill_agent(self) -> None:
        if self.agent is not None:
            self.agent.kill()
            self.agent.wait()
            self.agent = None

    def stop(self) -> None:
        self.kill_agent()
        if self.up is not None:
            stop_up(self.up)
        self.engines.stop()
        self.redis.stop()

    def report(self) -> dict[str, Any]:
        return self.up.report()

    def trouble(self) -> str:
        """What `status` says of Redis; of one that is silent, after a second."""
        return self.up.report(within_seconds=1.0)["redis"]["error"] or ""

    def replicas(self) -> dict[str, dict[str, Any]]:
        return {e["address"]: e for cluster in self.report()["clusters"] for e in cluster["endpoints"]}

    def is_whole(self) -> bool:
        """Everybody is there, Redis takes writes, and every replica serves by a fresh sample."""
        report = self.report()
        replicas = [e for cluster in report["clusters"] for e in cluster["endpoints"]]
        return (
            report["redis"] == {"reachable": True, "error": None}
            and all(report["services"][name] for name in WATCHED)
            and bool(report["envoys"])
            and len(replicas) == len(self.addresses)
            and all(e["status"] in {"ready", "idle"} and e["weight"] and not e["stale"] for e in replicas)
        )

    def pids(self) -> dict[str, int]:
        return dict(self.up.ready["pids"])


@dataclass
class Traffic:
    """Light load on both clusters."""

    loads: list[Load]

    def served(self) -> int:
        return min(load.statuses["200"] for load in self.loads)

    def go_on(self, requests: int = 20) -> None:
        """Wait until each cluster answered so many more."""
        before = [load.statuses["200"] for load in self.loads]
        wait_until(
            lambda: all(one.statuses["200"] >= was + requests for one, was in zip(self.loads, before, strict=True)),
            what="load going on",
        )

    def failures(self) -> dict[str, int]:
        return {s: n for load in self.loads for s, n in load.statuses.items() if s != "200"}


@pytest.fixture(scope="package")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Shared: a test that breaks something waits until the world is whole again."""
    folder = tmp_path_factory.mktemp("fail_static")
    one = World(RedisServer(folder), folder)
    try:
        one.start()
        yield one
    finally:
        one.stop()


@pytest.fixture
def traffic(world: World) -> Iterator[Traffic]:
    with (
        Load(world.up.gateway, chat("filed"), threads=1) as filed,
        Load(world.up.gateway, chat("joined"), threads=1) as joined,
    ):
        both = Traffic([filed, joined])
        both.go_on()
        yield both


def paused(server: RedisServer) -> None:
    """A Redis that accepts connections and never answers."""
    assert server.process is not None
    os.kill(server.process.pid, signal.SIGSTOP)


def resumed(server: RedisServer) -> None:
    assert server.process is not None
    os.kill(server.process.pid, signal.SIGCONT)
