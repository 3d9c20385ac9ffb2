"""One measurement: what the driver hands to the report and what `bench/out/latest.json` holds."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One scenario at one number of connections.

    `rps` counts answered requests in a second; `p50_ms` and `p99_ms` are end to end at the client; `cpu_us` is
    user and system time in µs a request, by process; `errors` counts answers that are not 2xx and broken
    connections: a row with errors measures something else.
    """

    name: str
    connections: int
    body_bytes: int
    rps: float
    p50_ms: float
    p99_ms: float
    cpu_us: dict[str, float] = field(default_factory=dict)
    requests: int = 0
    errors: int = 0
