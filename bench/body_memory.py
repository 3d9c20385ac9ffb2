"""How much memory the gateway takes when 64 bodies of 10 MiB are under way at once: `python -m bench --only memory`."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from bench.body import chat_body
from bench.load import generator
from bench.processes import peak_mib, reset_peak
from bench.scenarios.tidegate_pick import TidegatePick
from bench.upstream import upstream

CONNECTIONS = 64
BODY_BYTES = 10 << 20
WATCHED = ("envoy", "ext_proc")


def measure(seconds: float) -> list[dict[str, Any]]:
    """Peak resident memory of Envoy and ext_proc in MiB, beside the bodies that were under way."""
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as name:
        folder = Path(name)
        (body := folder / "body.json").write_bytes(chat_body(BODY_BYTES))
        with upstream(folder) as engines, TidegatePick().target(engines, folder) as target:
            pids = {process: target.pids[process][0] for process in WATCHED}
            for pid in pids.values():
                reset_peak(pid)
            idle = {process: peak_mib(pid) for process, pid in pids.items()}
            result = generator().run(target.url, body, CONNECTIONS, 2 * seconds)
            peak = {process: peak_mib(pid) for process, pid in pids.items()}
    bodies = CONNECTIONS * BODY_BYTES >> 20
    rows = [_row(f"{CONNECTIONS} × 10 MiB: answered / failed", result.requests, f"/ {result.errors}")]
    rows += [_row(f"{process}: memory before", idle[process], "MiB") for process in WATCHED]
    rows += [_row(f"{process}: peak memory, {bodies} MiB under way", peak[process], "MiB") for process in WATCHED]
    return rows


def _row(name: str, value: float, unit: str) -> dict[str, Any]:
    return {"name": name, "value": value, "unit": unit, "target": None}
