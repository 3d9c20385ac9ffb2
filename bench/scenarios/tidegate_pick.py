"""Client → Envoy ⇄ ext_proc → engine, with xds, agent and Redis at work: a `pick` cluster."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench import processes
from bench.body import MODEL, PATH
from bench.scenario import Target
from bench.upstream import Upstream


class TidegatePick:
    """The real path: `tidegate up` on a file that names the engines."""

    about = "client → Envoy ⇄ ext_proc → engine (lb: pick)"

    def __init__(self, name: str = "tidegate-pick", transport: str = "wire") -> None:
        self.name, self._transport = name, transport

    @contextmanager
    def target(self, upstream: Upstream, folder: Path) -> Iterator[Target]:
        ready_file, log = folder / "ready.json", folder / "tidegate.log"
        config = _write_config(folder, upstream)
        command = [sys.executable, "-m", "tidegate.cli.main", "up", "--config", str(config)]
        command += ["--ready-file", str(ready_file), "--envoy-admin", "127.0.0.1:0", "--keep-logs", str(folder)]
        process = processes.start(command, log, {"TIDEGATE_EXT_PROC_TRANSPORT": self._transport})
        try:
            processes.wait_for(ready_file.exists, process, log)
            ready = json.loads(ready_file.read_text())
            pids = {name: [pid] for name, pid in ready["pids"].items()}
            yield Target(f"{ready['gateway']}{PATH}", {**pids, "upstream": [upstream.pid]})
        finally:
            processes.stop(process)


def _write_config(folder: Path, upstream: Upstream) -> Path:
    cluster: dict[str, Any] = {
        "name": MODEL,
        "models": [MODEL],
        "lb": "pick",
        "endpoints": [{"address": f"127.0.0.1:{port}"} for port in upstream.ports],
    }
    document = {
        "redis": {"url": "redis://127.0.0.1:0/0"},
        "gateway": {"listen": "127.0.0.1:0"},
        "clusters": [cluster],
    }
    path = folder / "bench.json"
    path.write_text(json.dumps(document))
    return path
