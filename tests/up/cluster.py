"""`tidegate up` as tests run it: a process of its own, found by its ready file, ended with the test."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self, TypeVar
from urllib.parse import urlsplit

import httpx

from tests import forked
from tests.conftest import PATIENT_SECONDS, wait_until
from tidegate.cli.binaries import redis_cli_binary
from tidegate.cli.connection import Target, find_target
from tidegate.cli.report import gather
from tidegate.runtime import now_ms
from tidegate.store.ports import Store
from tidegate.store.redis import RedisStore

T = TypeVar("T")

CHAT = "/v1/chat/completions"

PATIENT_AGENT = {"TIDEGATE_AGENT_TIMEOUT_MS": "5000"}
"""One that a busy machine keeps from answering twice for a second is not gone. Most engines of tests refuse or answer."""


@dataclass
class Up:
    """One running `tidegate up`. `ready` is the content of its ready file."""

    process: subprocess.Popen[bytes] | forked.Forked
    ready_file: Path
    output: Path

    @property
    def ready(self) -> dict[str, Any]:
        return json.loads(self.ready_file.read_text())

    @property
    def gateway(self) -> str:
        return self.ready["gateway"]

    def pid(self, name: str) -> int | None:
        return self.ready["pids"].get(name)

    def kill(self, name: str) -> int:
        """kill -9 one child; its process id."""
        pid = self.pid(name)
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        return pid

    def redis(self, *arguments: str) -> str:
        """What plain redis-cli prints, asked of the cluster's Redis."""
        port = str(urlsplit(self.ready["redis"]).port)
        command = [redis_cli_binary(), "-p", port, *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False).stdout.strip()

    def report(self, within_seconds: float = PATIENT_SECONDS) -> dict[str, Any]:
        """What `status` reports, without the start of a process; that Redis is silent, after so many seconds."""
        return self.ask(lambda store: gather(store, self._target.topology, now_ms()), within_seconds)

    def ask(self, question: Callable[[Store], Awaitable[T]], within_seconds: float = PATIENT_SECONDS) -> T:
        """The answer to a question about what the cluster's Redis holds."""

        async def go() -> T:
            store = RedisStore(self._target.redis_url, self._target.prefix, timeout_seconds=within_seconds)
            try:
                return await question(store)
            finally:
                await store.close()

        return asyncio.run(go())

    @cached_property
    def _target(self) -> Target:
        return find_target(Path(self.ready["config"]), self.ready["redis"], None)

    def answers(self, body: Mapping[str, Any], path: str = CHAT) -> bool:
        """Whether a request is served. `up` is ready once one of its clusters is."""
        return httpx.post(f"{self.gateway}{path}", json=body, timeout=60).status_code == 200

    def status(self) -> dict[str, Any]:
        """`tidegate status --json`, of this cluster."""
        done = tidegate("status", "--json", "--redis-url", self.ready["redis"], "--config", self.ready["config"])
        return json.loads(done.stdout)

    def text(self) -> str:
        return self.output.read_text(errors="replace")


def parent(pid: int) -> int:
    """The process that started it, or has it since that ended."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def tidegate(
    *arguments: str, env: Mapping[str, str] | None = None, executed: bool = False
) -> subprocess.CompletedProcess[str]:
    """Run the command line to its end. It is forked, unless the test is of its start."""
    if executed:
        command = [sys.executable, "-m", "tidegate.cli.main", *arguments]
        return subprocess.run(
            command, capture_output=True, text=True, timeout=180, check=False, env={**os.environ, "COLUMNS": "200"}
        )
    with TemporaryDirectory() as folder:
        said, errors = Path(folder, "said"), Path(folder, "errors")
        process = forked.start(
            *arguments,
            log=said,
            errors=errors,
            env={"COLUMNS": "200", **(env or {})},
            store_seconds=PATIENT_SECONDS,
        )
        try:
            code = process.wait(timeout=180)
        finally:
            process.kill()
        return subprocess.CompletedProcess(arguments, code, said.read_text(), errors.read_text())


def start_up(
    folder: Path,
    *arguments: str,
    config: Mapping[str, Any] | None = None,
    env: Mapping[str, str] | None = None,
    executed: bool = False,
) -> Up:
    """Start `tidegate up` and wait for its ready file. It is forked, unless the test is of its start and end."""
    ready_file, output = folder / "ready.json", folder / "up.log"
    command = ["up", "--ready-file", str(ready_file), "--patience", "60"]
    command += ["--envoy-admin", "127.0.0.1:0", "--keep-logs", str(folder / "logs"), *arguments]
    if config is not None:
        path = folder / "tidegate.yaml"
        path.write_text(json.dumps(config))
        command += ["--config", str(path)]
    env = PATIENT_AGENT | dict(env or {})
    process = _execute(command, output, env) if executed else forked.start(*command, log=output, env=env)
    cluster = Up(process, ready_file, output)

    def there() -> bool:
        assert process.poll() is None, output.read_text()
        return ready_file.exists()

    try:
        wait_until(there, deadline_seconds=120, what="the ready file")
    except AssertionError:
        stop_up(cluster)
        raise
    return cluster


def _execute(arguments: Sequence[str], output: Path, env: Mapping[str, str]) -> subprocess.Popen[bytes]:
    command, nothing = [sys.executable, "-m", "tidegate.cli.main", *arguments], subprocess.DEVNULL
    with output.open("wb") as log:
        return subprocess.Popen(command, stdout=log, stderr=log, stdin=nothing, env={**os.environ, **env})


def stop_up(cluster: Up) -> None:
    """SIGTERM and wait; a cluster that does not end is a failure, and is killed."""
    if cluster.process.poll() is None:
        cluster.process.terminate()
    try:
        cluster.process.wait(timeout=60)
    except subprocess.TimeoutExpired:
        cluster.process.kill()
        cluster.process.wait()
        raise


def chat(model: str, **more: Any) -> dict[str, Any]:
    """A small chat body."""
    return {"model": model, "messages": [{"role": "user", "content": "hello"}], "max_tokens": 2, **more}


@dataclass
class Load:
    """Constant load from a few threads until the block ends: answers counted by status, failures by kind.

    A thread asks at most fifty times a second, by the client that costs least: more would take the CPU from what is to
    come back meanwhile.
    """

    gateway: str
    body: Mapping[str, Any]
    path: str = CHAT
    threads: int = 4
    statuses: Counter[str] = field(default_factory=Counter)
    log: list[tuple[float, str]] = field(default_factory=list)

    def __enter__(self) -> Self:
        self._end = threading.Event()
        self._workers = [threading.Thread(target=self._run) for _ in range(self.threads)]
        for worker in self._workers:
            worker.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        for worker in self._workers:
            worker.join()

    def _run(self) -> None:
        client, body = HTTPConnection(urlsplit(self.gateway).netloc, timeout=60), json.dumps(self.body)
        while not self._end.is_set():
            began = time.monotonic()
            try:
                client.request("POST", self.path, body, {"content-type": "application/json"})
                answer = client.getresponse()
                answer.read()
                outcome = str(answer.status)
            except (HTTPException, OSError) as exc:
                client.close()
                outcome = type(exc).__name__
            self.statuses[outcome] += 1
            self.log.append((began, outcome))
            self._end.wait(0.02)
        client.close()

    def good_since(self, moment: float) -> int:
        """Answers with 200 to what was asked after `moment` (time.monotonic)."""
        return sum(1 for at, outcome in list(self.log) if at > moment and outcome == "200")

    def bad_since(self, moment: float) -> list[str]:
        """Everything but 200 that became of what was asked after `moment`."""
        return [outcome for at, outcome in list(self.log) if at > moment and outcome != "200"]
