"""Recorded or generated traffic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import median
from typing import Final, NamedTuple

BLOCK_TOKENS: Final = 512
"""Tokens that one prefix id of a trace stands for: Mooncake's."""


class TraceRequest(NamedTuple):
    """One request as it came. `blocks` are chained prefix ids of 512 tokens each, the last one may be partial;
    equal id means equal whole prefix. Without ids no two requests share anything."""

    at_seconds: float
    prompt_tokens: int
    output_tokens: int
    blocks: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Trace:
    """Requests in order of time. `quantum_seconds` is the grid that the recorder put its stamps on, 0 without one."""

    name: str
    requests: tuple[TraceRequest, ...]
    quantum_seconds: float = 0.0

    @property
    def seconds(self) -> float:
        """From the first stamp to the last, plus one mean gap: the period of the trace when it is repeated."""
        span = self.requests[-1].at_seconds - self.requests[0].at_seconds
        return span * len(self.requests) / max(1, len(self.requests) - 1)


def trace_of(name: str, requests: Sequence[TraceRequest]) -> Trace:
    """A trace of requests in any order, its quantum found."""
    ordered = tuple(sorted(requests, key=lambda request: request.at_seconds))
    return Trace(name, ordered, _quantum([request.at_seconds for request in ordered]))


def fitted(trace: Trace, longest: int) -> tuple[Trace, int]:
    """The trace with no request of more than `longest` tokens, prompts cut to fit; and how many were cut."""
    cut = [r for r in trace.requests if r.prompt_tokens + r.output_tokens > longest]
    if not cut:
        return trace, 0
    return replace(trace, requests=tuple(_cut(r, longest) for r in trace.requests)), len(cut)


def _cut(request: TraceRequest, longest: int) -> TraceRequest:
    output = min(request.output_tokens, longest - 1)
    prompt = min(request.prompt_tokens, longest - output)
    return request._replace(
        prompt_tokens=prompt, output_tokens=output, blocks=request.blocks[: -(-prompt // BLOCK_TOKENS)]
    )


def _quantum(stamps: Sequence[float]) -> float:
    """The usual gap between different stamps where at least half of them repeat, else 0."""
    gaps = [later - earlier for earlier, later in pairwise(stamps)]
    rising = [gap for gap in gaps if gap > 0]
    return median(rising) if rising and len(rising) < len(gaps) / 2 else 0.0
