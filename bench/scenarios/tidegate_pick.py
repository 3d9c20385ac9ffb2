"""Client → Envoy ⇄ ext_proc → engine, with xds, agent and Redis at work: a `pick` cluster of two replicas."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench import processes
from bench.body import MODEL, PATH
from bench.scenario import Target
from bench.upstream import Upstream

# A word of the command line → the process's name in the rows. The first that fits names it.
WORDS: Mapping[str, str] = {
    "redis-server": "redis",
    "envoy": "envoy",
    "ext-proc": "ext_proc",
    "xds": "xds",
    "agent": "agent",
}


class TidegatePick:
    """The real path: `tidegate up` on a file that names the engines."""

    name = "tidegate-pick"
    about = "client → Envoy ⇄ ext_proc → engine (lb: pick)"

    @contextmanager
    def target(self, upstream: Upstream, folder: Path) -> Iterator[Target]:
        ready, log = folder / "ready.json", folder / "tidegate.log"
        process = processes.start(_command(_write_config(folder, upstream), ready), log)
        try:
            processes.wait_for(ready.exists, process, log)
            url = f"http://{json.loads(ready.read_text())['gateway']}{PATH}"
            yield Target(url, {**by_name(processes.descendants(process.pid)), "upstream": [upstream.pid]})
        finally:
            processes.stop(process)


def _command(config: Path, ready: Path) -> list[str | Path]:
    return [sys.executable, "-m", "tidegate.cli.main", "up", "--config", config, "--ready-file", ready]


def _write_config(folder: Path, upstream: Upstream) -> Path:
    cluster: dict[str, Any] = {
        "name": MODEL,
        "models": [MODEL],
        "lb": "pick",
        "endpoints": [{"address": f"127.0.0.1:{port}"} for port in upstream.ports],
    }
    path = folder / "tidegate.json"
    path.write_text(json.dumps({"gateway": {"listen": "127.0.0.1:0"}, "clusters": [cluster]}))
    return path


def by_name(commands: Mapping[int, Sequence[str]]) -> dict[str, list[int]]:
    """Sort pids under the names of WORDS: a program's base name or an argument decides; others are left out."""
    named: dict[str, list[int]] = {}
    for pid, command in commands.items():
        words = {Path(command[0]).name, *command[1:]} if command else set()
        name = next((name for word, name in WORDS.items() if word in words), None)
        if name:
            named.setdefault(name, []).append(pid)
    return named
