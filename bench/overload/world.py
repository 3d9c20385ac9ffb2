"""A gateway as `tidegate up` runs it, before a few simulated engines of its own."""

from __future__ import annotations

import contextlib
import json
import re
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bench import processes
from bench.gateway import TIDEGATE, gateway
from bench.ports import accepts, free_port

MODEL: Final = "m"
CLASSES: Final = [
    {"name": "gold", "match": {"header": {"x-tier": "gold"}}, "weight": 3},
    {"name": "silver", "match": {"header": {"x-tier": "silver"}}, "weight": 1},
]
SERVED: Final = r'tidegate_queue_served_total\{class="([^"]+)",cluster="c",priority="normal"\}'


@dataclass(frozen=True, slots=True)
class World:
    """`gateway` and `page` (ext_proc's metrics) are URLs, `pid` is ext_proc's."""

    gateway: str
    page: str
    pid: int

    def metrics(self) -> dict[str, float]:
        """Every value of the page, by name with labels."""
        with urllib.request.urlopen(self.page, timeout=10) as got:
            lines = got.read().decode().splitlines()
        return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines if not line.startswith("#")}

    def waiting(self) -> float:
        """Requests in ext_proc's queues."""
        return sum(value for name, value in self.metrics().items() if name.startswith("tidegate_queue_requests{"))

    def served(self) -> dict[str, float]:
        """Requests of priority 0 that were placed, by class."""
        found = ((re.fullmatch(SERVED, name), value) for name, value in self.metrics().items())
        return {match[1]: value for match, value in found if match}

    def memory_bytes(self) -> int:
        """What ext_proc has in memory."""
        return round(processes.resident_mib(self.pid) * (1 << 20))


@contextmanager
def world(folder: Path, engines: int, kv_blocks: int) -> Iterator[World]:
    """Start all of it, wait until it serves, and end it. Raises RuntimeError with the end of a log."""
    with contextlib.ExitStack() as stack:
        addresses = [_engine(stack, folder, number, kv_blocks) for number in range(engines)]
        ready = stack.enter_context(gateway(folder, _config(addresses), start_seconds=120))
        told = json.loads(ready.read_text())
        yield World(told["gateway"], told["metrics"]["ext_proc"], told["pids"]["ext_proc"])


def _engine(stack: contextlib.ExitStack, folder: Path, number: int, kv_blocks: int) -> str:
    port, log = free_port(), folder / f"engine-{number}.log"
    sizes = ("--kv-blocks", str(kv_blocks), "--max-model-len", "2048", "--speed", "0.5", "--seed", str(number))
    process = processes.start([*TIDEGATE, "engine-sim", "--port", str(port), "--model", MODEL, *sizes], log)
    stack.callback(processes.stop, process)
    processes.wait_for(lambda: accepts(port), process, log)
    return f"127.0.0.1:{port}"


def _config(addresses: list[str]) -> dict[str, Any]:
    return {
        "gateway": {"listen": "127.0.0.1:0"},
        "redis": {"url": f"redis://127.0.0.1:{free_port()}/0"},
        "clusters": [{"name": "c", "models": [MODEL], "endpoints": [{"address": one} for one in addresses]}],
        "classes": CLASSES,
    }
