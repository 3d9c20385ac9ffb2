"""Load one target and read what each of its processes spent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.load import Generator
from bench.processes import cpu_seconds
from bench.rows import Row
from bench.scenario import Target

WARM_UP_SECONDS = 1.0


def measure(
    name: str,
    target: Target,
    load: Generator,
    *,
    body: Path,
    connections: int,
    seconds: float,
    body_bytes: int | None = None,
    warm_up: bool = True,
) -> Row:
    """Warm up for a second, then load `target` for `seconds` and count. A folder as `body` needs its `body_bytes`.

    CPU is the difference of what the processes had spent before and after, over the requests answered between:
    it includes what they do besides requests (sampling, ticks), which weighs most at low rates.
    """
    if warm_up:
        load.run(target.url, body, connections, WARM_UP_SECONDS)
    before = _spent(target.pids)
    result = load.run(target.url, body, connections, seconds)
    after = _spent(target.pids)
    requests = max(result.requests, 1)
    return Row(
        name=name,
        connections=connections,
        body_bytes=body.stat().st_size if body_bytes is None else body_bytes,
        rps=round(result.requests / result.seconds, 1),
        p50_ms=round(result.p50_ms, 3),
        p99_ms=round(result.p99_ms, 3),
        cpu_us={process: round((after[process] - before[process]) * 1e6 / requests, 1) for process in after},
        requests=result.requests,
        errors=result.errors,
    )


def _spent(pids: Mapping[str, Sequence[int]]) -> dict[str, float]:
    return {name: cpu_seconds(of_it) for name, of_it in pids.items()}
