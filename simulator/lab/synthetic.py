"""Traffic made from published percentiles, for machines that have no trace at hand.

Kinds and their figures (prompt and output tokens at p50, p95, p99; variation of the gaps; part of the prompt tokens
that an infinite cache holds) are those of the public traces: Mooncake's conversation and synthetic ones (FAST '25),
Azure's conversation and code (2023).
"""

from __future__ import annotations

import math
import random
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from simulator.lab.trace import BLOCK_TOKENS, Trace, TraceRequest, trace_of

OPEN_SESSIONS: Final = 600
"""Conversations that may go on; older ones are over."""


@dataclass(frozen=True, slots=True)
class Kind:
    """Tokens at p50, p95, p99. `gap_cv` is standard deviation over mean of the gaps; `quantum_seconds` the stamps'
    grid; `reuse` the part of the prompt tokens in [0, 1) that came before, a shared first block included."""

    prompt: tuple[float, float, float]
    output: tuple[float, float, float]
    rate: float
    gap_cv: float
    quantum_seconds: float = 0.0
    reuse: float = 0.0


KINDS: Final[Mapping[str, Kind]] = {
    "conversation": Kind((6909, 39550, 85400), (350, 698, 1118), 3.4015, 1.0, 3.0, 0.3736),
    "tools": Kind((11587, 48905, 66456), (69, 519, 768), 3.9069, 1.011, 0.0, 0.6512),
    "chat": Kind((1020, 4083, 4142), (129, 451, 601), 5.5304, 1.094),
    "code": Kind((1469, 7303, 7436), (13, 90, 251), 2.5667, 13.151),
}


def generate(kind: str, count: int, seed: int = 0) -> Trace:
    """`count` requests of a kind of KINDS; the same seed gives the same trace."""
    rng, figures = random.Random(f"{kind} {seed}"), KINDS[kind]  # noqa: S311
    prefixes = _Prefixes(rng, figures.reuse)
    requests, at = [], 0.0
    for _ in range(count):
        at += _gap(rng, figures)
        stamp = at - at % figures.quantum_seconds if figures.quantum_seconds else at
        prompt = _tokens(rng, figures.prompt)
        blocks = prefixes.blocks(prompt) if figures.reuse else ()
        requests.append(TraceRequest(stamp, prompt, _tokens(rng, figures.output), blocks))
    return trace_of(f"synthetic:{kind}", requests)


def _gap(rng: random.Random, figures: Kind) -> float:
    """Seconds to the next request: gamma distributed, with the mean and the variation asked for."""
    shape = 1 / figures.gap_cv**2
    return rng.gammavariate(shape, 1 / (figures.rate * shape))


def _tokens(rng: random.Random, percentiles: tuple[float, float, float]) -> int:
    """A length whose p50, p95 and p99 are those given: straight lines between them, on a logarithmic scale."""
    p50, p95, p99 = percentiles
    points = ((0.0, p50 / 20), (0.5, p50), (0.95, p95), (0.99, p99), (1.0, p99 * 1.2))
    u = rng.random()
    upper = next(index for index, (q, _) in enumerate(points) if q >= u and index)
    (q0, low), (q1, high) = points[upper - 1], points[upper]
    return max(1, round(math.exp(math.log(low) + (u - q0) / (q1 - q0) * math.log(high / low))))


class _Prefixes:
    """Gives prompts their prefix ids: block 0 begins each, and a conversation repeats its whole last prompt.

    A prompt continues a conversation whenever less than the wanted part was repeated so far.
    """

    def __init__(self, rng: random.Random, reuse: float) -> None:
        self._rng, self._reuse = rng, reuse
        self._next = 1
        self._sessions: list[tuple[int, int, tuple[int, ...]]] = []  # (blocks, number, ids), by blocks
        self._order: deque[tuple[int, int, tuple[int, ...]]] = deque()
        self._all = self._repeated = 0

    def blocks(self, prompt_tokens: int) -> tuple[int, ...]:
        count = -(-prompt_tokens // BLOCK_TOKENS)
        prefix = self._continued(count)
        fresh = range(self._next, self._next + count - len(prefix))
        self._next += len(fresh)
        ids = (*prefix, *fresh)
        self._all += prompt_tokens
        self._repeated += min(prompt_tokens, len(prefix) * BLOCK_TOKENS)
        self._remember(ids)
        return ids

    def _continued(self, count: int) -> tuple[int, ...]:
        shorter = bisect_left(self._sessions, (count,))
        if not shorter or self._repeated >= self._reuse * self._all:
            return (0,)
        # A turn adds less than what came before it, mostly: a session of at least half the length.
        least = bisect_left(self._sessions, (count // 2,))
        session = self._sessions[self._rng.randrange(min(least, shorter - 1), shorter)]
        self._sessions.remove(session)
        self._order.remove(session)
        return session[2]

    def _remember(self, ids: tuple[int, ...]) -> None:
        session = (len(ids), self._next, ids)
        insort(self._sessions, session)
        self._order.append(session)
        if len(self._order) > OPEN_SESSIONS:
            self._sessions.remove(self._order.popleft())
