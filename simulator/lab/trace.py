"""Recorded or generated traffic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
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


def _quantum(stamps: Sequence[float]) -> float:
    """The usual gap between different stamps where at least half of them repeat, else 0."""
    gaps = [later - earlier for earlier, later in zip(stamps, stamps[1:], strict=False)]
    rising = [gap for gap in gaps if gap > 0]
    return median(rising) if rising and len(rising) < len(gaps) / 2 else 0.0
