"""Two fast engines: an Envoy that answers by itself, so that nobody waits for it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench import processes
from bench.envoy_config import write_upstream
from bench.ports import answers, free_port
from tidegate.cli.binaries import envoy_binary


@dataclass(frozen=True, slots=True)
class Upstream:
    """Ports of the engines on 127.0.0.1, and the one process behind them."""

    ports: tuple[int, ...]
    pid: int


@contextmanager
def upstream(folder: Path, engines: int = 2, *, whole_bodies: bool = False) -> Iterator[Upstream]:
    """Run the engines until exit. With `whole_bodies` they answer once a body is there, as engines do."""
    ports, admin = tuple(free_port() for _ in range(engines)), free_port()
    write_upstream(folder / "upstream.json", ports, admin, whole_bodies=whole_bodies)
    with envoy(folder / "upstream.json", f"http://127.0.0.1:{ports[0]}/health") as pid:
        yield Upstream(ports, pid)


@contextmanager
def envoy(config: Path, ready_url: str) -> Iterator[int]:
    """Run an Envoy with one worker thread on `config` until exit; yields its pid once `ready_url` answers."""
    log = config.with_suffix(".log")
    command = [str(envoy_binary()), "-c", str(config), "--concurrency", "1"]
    command += ["--disable-hot-restart", "--log-level", "warning"]
    process = processes.start(command, log)
    try:
        processes.wait_for(lambda: answers(ready_url), process, log)
        yield process.pid
    finally:
        processes.stop(process)
