"""A trace as the calls of one seed: where it begins, when within a quantum they come, how fast."""

from __future__ import annotations

import random

from simulator.lab.call import Call
from simulator.lab.trace import Trace, TraceRequest

PROMPT_ERROR = 0.1
"""Estimated prompt tokens lie within this part of the true ones: what bytes over a learned ratio gives."""


def arrivals(trace: Trace, seed: int, rate: float, limit: int | None = None, jitter: float = 1.0) -> list[Call]:
    """Calls in order of time, `rate` a second on average, the first at 0 or soon after.

    Seed 0 begins where the trace does, others at a random request, and go around. Stamps on a grid are spread over
    `jitter` (0 to 1) of its quantum, since within it nobody knows when a request came.
    """
    rng = random.Random(f"arrivals {seed}")  # noqa: S311
    requests = _rotated(trace, rng.randrange(len(trace.requests)) if seed else 0)[:limit]
    stamps = [r.at_seconds + rng.random() * jitter * trace.quantum_seconds for r in requests]
    order = sorted(range(len(requests)), key=stamps.__getitem__)
    begin = stamps[order[0]]
    span = (stamps[order[-1]] - begin) * len(order) / max(1, len(order) - 1)
    scale = len(order) / (rate * span) if span > 0 else 1.0
    return [_call(n, (stamps[i] - begin) * scale, requests[i], rng) for n, i in enumerate(order)]


def _rotated(trace: Trace, start: int) -> list[TraceRequest]:
    later = [r._replace(at_seconds=r.at_seconds + trace.seconds) for r in trace.requests[:start]]
    return [*trace.requests[start:], *later]


def _call(number: int, at: float, request: TraceRequest, rng: random.Random) -> Call:
    call = Call(number, at, request.prompt_tokens, request.output_tokens, request.blocks)
    call.prompt_error = rng.uniform(1 - PROMPT_ERROR, 1 + PROMPT_ERROR)
    return call
