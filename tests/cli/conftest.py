"""A cluster of two replicas on a real Redis, with a controller that decides when the test says so."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from controller.controller import Controller
from tests.conftest import RedisServer
from tests.controller.world import A, B, tick
from tidegate.cli.main import main
from tidegate.settings.config_file import load
from tidegate.store.ports import Store
from tidegate.store.redis import RedisStore

LONG_MS = 600_000
FILE = f"""
clusters:
  - name: phi-3
    models: [phi-3]
    endpoints: [{{address: "{A}"}}, {{address: "{B}"}}]
    envoy: {{retries: 1}}
  - name: sdxl
    models: [sdxl]
    kind: diffusion
    endpoints: [{{address: "10.0.0.9:8000"}}]
"""


@dataclass(frozen=True)
class Said:
    """What a command did: its exit code and what it printed."""

    code: int
    out: str
    err: str


@dataclass
class Desk:
    """An operator's desk: `run` is the command line, `redis` is redis-cli, `decide` one tick of the controller."""

    server: RedisServer
    config: Path
    capture: pytest.CaptureFixture[str]
    monkeypatch: pytest.MonkeyPatch
    where: list[str] = field(default_factory=list)

    def run(self, *arguments: str) -> Said:
        """`tidegate …` in this process."""
        self.capture.readouterr()
        self.monkeypatch.setattr(sys, "argv", ["tidegate", *arguments, *self.where])
        code: Any = 0
        try:
            main()
        except SystemExit as exc:
            code = exc.code
        told = self.capture.readouterr()
        return Said(int(code or 0), told.out, told.err)

    def redis(self, *arguments: str) -> str:
        return self.server.cli(*arguments)

    def ask(self, question: Callable[[Store], Awaitable[Any]]) -> Any:
        async def go() -> Any:
            store = RedisStore(self.server.url)
            try:
                return await question(store)
            finally:
                await store.close()

        return asyncio.run(go())

    def decide(self, **kv: Any) -> None:
        """Samples (KV use of replicas `a` and `b`), then one tick of a controller that knows only what is stored."""

        async def go(store: Store) -> None:
            now = round(await store.time_ms())
            if kv:
                await store.publish(tick(now, **kv), ttl_ms=LONG_MS)
            topology = load(self.config).topology
            await Controller(store, topology, clock=lambda: now, sample_ttl_ms=LONG_MS).tick()

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("controller.controller.LEASE_MS", LONG_MS)  # no stop of this process ends it
            self.ask(go)
        self.redis("DEL", "tidegate:leader")  # whoever decides next does not wait for the lease to end

    def weight(self, address: str) -> str:
        return self.redis("HGET", "tidegate:effective:phi-3", address)


@pytest.fixture
def desk(
    redis_server: RedisServer,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    patient: None,
) -> Desk:
    config = tmp_path / "tidegate.yaml"
    config.write_text(FILE)
    monkeypatch.setenv("USER", "ann")
    for name in ("LOGNAME", "TIDEGATE_CONFIG", "TIDEGATE_REDIS_URL"):
        monkeypatch.delenv(name, raising=False)
    desk = Desk(redis_server, config, capsys, monkeypatch)
    desk.where = ["--config", str(config), "--redis-url", redis_server.url]
    desk.decide(a=0.4, b=0.75)
    return desk
