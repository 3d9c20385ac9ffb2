"""Client → Envoy ⇄ ext_proc → engine, with xds, agent and Redis at work: a `pick` cluster."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.body import MODEL, PATH
from bench.gateway import gateway
from bench.scenario import Target
from bench.upstream import Upstream


class TidegatePick:
    """The real path: `tidegate up` on a file that names the engines."""

    about = "client → Envoy ⇄ ext_proc → engine (lb: pick)"

    def __init__(self, name: str = "tidegate-pick", transport: str = "wire") -> None:
        self.name, self._transport = name, transport

    @contextmanager
    def target(self, upstream: Upstream, folder: Path) -> Iterator[Target]:
        transport = {"TIDEGATE_EXT_PROC_TRANSPORT": self._transport}
        with gateway(folder, _config(upstream), environment=transport) as ready_file:
            ready = json.loads(ready_file.read_text())
            pids = {name: [pid] for name, pid in ready["pids"].items()}
            yield Target(f"{ready['gateway']}{PATH}", {**pids, "upstream": [upstream.pid]})


def _config(upstream: Upstream) -> dict[str, Any]:
    cluster: dict[str, Any] = {
        "name": MODEL,
        "models": [MODEL],
        "lb": "pick",
        "endpoints": [{"address": f"127.0.0.1:{port}"} for port in upstream.ports],
    }
    return {
        "redis": {"url": "redis://127.0.0.1:0/0"},
        "gateway": {"listen": "127.0.0.1:0"},
        "clusters": [cluster],
    }
