"""A real gateway whose line to ext_proc can be broken: xds and ext_proc as processes, two workers, a real Envoy."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

from tests.chaos.line import Line
from tests.chaos.load import ALIASES, MODELS, Engine, Load
from tests.conftest import until
from tests.ports import take_free_port, take_free_row
from tidegate.cli.binaries import envoy_binary
from xds_server.bootstrap import bootstrap_yaml

WORKERS = 2


@dataclass(frozen=True)
class Held:
    """What the workers of ext_proc hold: open streams and descriptors together, the largest one's resident MiB."""

    streams: float
    descriptors: int
    resident_mib: float


@dataclass
class Gateway:
    """`start` brings everything up; `envoy` and workers may be killed, `lines` be broken."""

    redis_url: str
    folder: Path
    transport: str
    port: int = field(default_factory=take_free_port)
    admin: int = field(default_factory=take_free_port)
    metrics: int = field(default_factory=take_free_port)
    own: int = field(default_factory=lambda: take_free_row(WORKERS + 1))
    engines: list[Engine] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    async def start(self) -> None:
        self.engines = [Engine(model) for model in MODELS]
        first = take_free_row(WORKERS)
        self.lines = [Line(self.own + 1 + number, first + number) for number in range(WORKERS)]
        for part in (*self.engines, *self.lines):
            await part.start()
        file = self._file()
        xds = f"127.0.0.1:{take_free_port()}"
        self._tidegate("ext-proc", "--config", file, "--listen", f"127.0.0.1:{self.own}", "--workers", str(WORKERS),
                       "--transport", self.transport, "--metrics-listen", f"127.0.0.1:{self.metrics}")  # fmt: skip
        self._tidegate(
            "xds", "--config", file, "--listen", xds, "--ext-proc", f"127.0.0.1:{first}-{first + WORKERS - 1}"
        )
        (self.folder / "envoy.yaml").write_text(bootstrap_yaml(xds, f"127.0.0.1:{self.admin}", node_id="chaos"))
        self.start_envoy()
        await self.until_all_is_well()

    async def stop(self) -> None:
        for name in ("envoy", "xds", "ext-proc"):
            if name in self.processes:
                process = self.processes.pop(name)
                process.send_signal(signal.SIGCONT)
                process.terminate()
                try:
                    await asyncio.to_thread(process.wait, 15)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
        for part in (*self.lines, *self.engines):
            await part.stop()

    def start_envoy(self) -> None:
        """A new Envoy on the same ports."""
        command = [str(envoy_binary()), "-c", str(self.folder / "envoy.yaml"), "--concurrency", "1"]
        command += ["--disable-hot-restart", "--log-level", "error", "--log-path", str(self.folder / "envoy.log")]
        silent = subprocess.DEVNULL
        self.processes["envoy"] = subprocess.Popen(command, stdout=silent, stderr=silent)

    def kill_envoy(self) -> None:
        """kill -9."""
        self.processes["envoy"].kill()
        self.processes.pop("envoy").wait()

    def worker_pids(self) -> list[int]:
        """The workers that live, oldest first."""
        parent = self.processes["ext-proc"].pid
        return sorted(map(int, Path(f"/proc/{parent}/task/{parent}/children").read_text().split()))

    async def until_all_is_well(self) -> None:
        """Every model is answered right, several times in a row, with every worker there."""

        async def well() -> bool:
            return len(self.worker_pids()) == WORKERS and await self.answers(4)

        await until(well, deadline_seconds=120, what="a gateway that answers every model")

    async def answers(self, times: int = 1) -> bool:
        """Whether every model is answered right."""
        load = Load(self.port)
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=30)) as session:
            told = [await load.ask(session, name, 100) for name in [*MODELS, *ALIASES] * times]
        return set(told) == {"200"} and not load.wrong

    async def held(self) -> Held:
        """What the workers hold at this moment."""
        async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{self.metrics}/metrics") as page:
            text = await page.text()
        streams = re.findall(r"^tidegate_ext_proc_open_streams(?:\{.*\})? (\S+)$", text, re.MULTILINE)
        assert streams, "the page tells no streams"
        pids = self.worker_pids()
        descriptors = sum(len(list(Path(f"/proc/{pid}/fd").iterdir())) for pid in pids)
        return Held(sum(map(float, streams)), descriptors, max(map(resident_mib, pids)))

    def _file(self) -> str:
        path = self.folder / "tidegate.json"
        clusters = [
            {"name": e.model, "models": [e.model], "lb": "pick", "endpoints": [{"address": f"127.0.0.1:{e.port}"}]}
            for e in self.engines
        ]
        document: dict[str, Any] = {
            "redis": {"url": self.redis_url, "prefix": f"chaos-{self.transport}"},
            "gateway": {"listen": f"127.0.0.1:{self.port}", "without_picker": "refuse"},
            "clusters": clusters,
            "aliases": ALIASES,
        }
        path.write_text(json.dumps(document))
        return str(path)

    def _tidegate(self, service: str, *arguments: str) -> None:
        with (self.folder / f"{service}.log").open("wb") as log:
            command = [sys.executable, "-m", "tidegate.cli.main", service, *arguments]
            if service == "xds":
                command += ["--redis-url", self.redis_url]
            self.processes[service] = subprocess.Popen(command, stdout=log, stderr=log)


def resident_mib(pid: int) -> float:
    """Resident memory of a process."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024
