"""A rule over a fleet, tick by tick: what the agent, Redis, the controller and Envoy do to each other."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from bench.weights.fleet import Done, Fleet
from tidegate.domain.memory import Memory
from tidegate.domain.sample import EndpointSample
from tidegate.domain.topology import Kind, Precision
from tidegate.domain.weights import DEFAULT, Decision, Replica, Rules, decide

STEP_SECONDS = 0.05
SAMPLE_STEPS = 2
TICK_STEPS = 5

Weights = Mapping[str, float]


class Rule(Protocol):
    """Weights by address from the newest sample of each replica, at a moment in seconds."""

    def tick(self, at: float, samples: Sequence[EndpointSample]) -> Weights: ...


@dataclass(slots=True)
class Constant:
    """The same weights always; round robin where all are equal."""

    weights: Weights

    def tick(self, at: float, samples: Sequence[EndpointSample]) -> Weights:  # noqa: ARG002
        return self.weights


@dataclass(slots=True)
class Tidegate:
    """The rule of the product. `precisions` are what the file says, in the order of the samples."""

    rules: Rules = DEFAULT
    precisions: Sequence[Precision] = ()
    memories: dict[str, Memory] = field(default_factory=dict)
    decided: list[Decision] = field(default_factory=list)

    def tick(self, at: float, samples: Sequence[EndpointSample]) -> Weights:
        told = self.precisions or [Precision.FP16] * len(samples)
        replicas = [
            Replica(address=s.address, precision=p, sample=s, memory=self.memories.get(s.address))
            for s, p in zip(samples, told, strict=True)
        ]
        now_ms = round(at * 1000)
        self.decided = decide(replicas, kind=Kind.LLM, now_ms=now_ms, sample_ttl_ms=3_000, rules=self.rules)
        self.memories = {one.address: one.memory for one in self.decided}
        return {one.address: float(one.weight) for one in self.decided}


@dataclass(frozen=True, slots=True)
class Slowdown:
    """From second `at` on, the replica of that index runs at `factor` times its speed."""

    at: float
    index: int = 0
    factor: float = 0.5


@dataclass(frozen=True, slots=True)
class Run:
    """Shares by tick (second, then a share for each replica in order), and every request, all of which ended."""

    shares: list[tuple[float, tuple[float, ...]]]
    done: list[Done]
    waiting: list[int]

    def between(self, start: float, end: float) -> list[tuple[float, ...]]:
        """Shares of the ticks from `start` to before `end`."""
        return [shares for at, shares in self.shares if start <= at < end]

    def p99(self, after: float, before: float = math.inf, *, first_token: bool = False) -> float:
        """Of the requests that arrived between those seconds, in seconds.

        By arrival, since of what an overloaded replica got, the worst part ends last or has not ended yet.
        """
        arrived = (d for d in self.done if after <= d.at - d.seconds < before)
        found = sorted(d.first_token_seconds if first_token else d.seconds for d in arrived)
        return found[int(0.99 * len(found))]


def run(
    fleet: Fleet,
    rule: Rule,
    *,
    seconds: float,
    delay_seconds: float = 1.0,
    slowdowns: Sequence[Slowdown] = (),
) -> Run:
    """Ten samples and four ticks a second; a rule sees a sample `delay_seconds` after it was taken."""
    weights: Weights = {replica.address: 1.0 for replica in fleet.replicas}
    on_the_way: deque[tuple[float, list[EndpointSample]]] = deque()
    seen: list[EndpointSample] = []
    shares = []
    for step in range(1, round(seconds / STEP_SECONDS) + 1):
        at = step * STEP_SECONDS
        for slow in slowdowns:
            if at - STEP_SECONDS < slow.at <= at:
                fleet.change_speed(slow.index, slow.factor)
        fleet.advance(at, weights)
        if step % SAMPLE_STEPS == 0:
            on_the_way.append((at, [replica.sample(at, step) for replica in fleet.replicas]))
        if step % TICK_STEPS == 0:
            while on_the_way and on_the_way[0][0] <= at - delay_seconds:
                seen = on_the_way.popleft()[1]
            if seen:
                weights = rule.tick(at, seen)
            total = sum(weights.values())
            shares.append((at, tuple(weights[r.address] / total for r in fleet.replicas)))
    waiting = [replica.engine.waiting for replica in fleet.replicas]
    fleet.finish(seconds)
    return Run(shares, [one for replica in fleet.replicas for one in replica.done], waiting)
