"""A fleet of simulated engines behind weighted round robin, with the samples that an agent takes of it."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from metrics_agent.window import CounterWindow, HistogramWindow
from simulator.engine import Engine, EngineParams, EventKind, Output, Request
from tidegate.domain.sample import EndpointSample, Status

CLUSTER = "c"
# vLLM's buckets of e2e_request_latency_seconds.
BOUNDS = (0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, math.inf)
SATURATED_PER_SECOND = 14.66
"""Requests/s of `Chat` that an engine of speed 1 finishes while requests always wait, as `saturated` measures."""


@dataclass(frozen=True, slots=True)
class Chat:
    """Log-normal lengths in tokens: the median and sigma of prompts and of answers."""

    prompt: tuple[float, float] = (300.0, 0.8)
    answer: tuple[float, float] = (150.0, 0.7)

    def draw(self, rng: random.Random) -> Request:
        prompt = min(3000, max(1, int(rng.lognormvariate(math.log(self.prompt[0]), self.prompt[1]))))
        answer = min(2000, max(1, int(rng.lognormvariate(math.log(self.answer[0]), self.answer[1]))))
        return Request(prompt, (Output(answer),))


@dataclass(frozen=True, slots=True)
class Done:
    """A request that ended at `at`: seconds to its end and to its first token."""

    at: float
    seconds: float
    first_token_seconds: float


@dataclass(slots=True)
class Replica:
    """One engine and what its agent keeps of it."""

    address: str
    engine: Engine
    done: list[Done] = field(default_factory=list)
    sent: int = 0
    _counts: list[int] = field(default_factory=lambda: [0] * len(BOUNDS))
    _latency: HistogramWindow = field(default_factory=HistogramWindow)
    _generated: CounterWindow = field(default_factory=CounterWindow)

    def advance(self, to: float) -> None:
        for event in self.engine.advance(to):
            if event.kind is EventKind.FINISHED:
                arrived, first = event.subject.arrived_at, event.subject.first_token_at
                self._finished(Done(event.at, event.at - arrived, (event.at if first is None else first) - arrived))

    def _finished(self, done: Done) -> None:
        self.done.append(done)
        for index, bound in enumerate(BOUNDS):
            self._counts[index] += done.seconds <= bound

    def sample(self, at: float, seq: int) -> EndpointSample:
        """What an agent's scrape at that second shows."""
        engine = self.engine
        self._latency.observe(at, {0: dict(zip(BOUNDS, self._counts, strict=True))})
        self._generated.observe(at, {0: float(engine.counters.generation_tokens)})
        p99 = self._latency.quantile(at, 0.99)
        return EndpointSample(
            cluster=CLUSTER,
            address=self.address,
            node="n",
            sampled_at_ms=round(at * 1000),
            seq=seq,
            status=Status.READY,
            running=engine.running,
            waiting=engine.waiting,
            kv_used_ratio=engine.kv_used_ratio,
            latency_p99_ms=None if p99 is None else p99 * 1000,
            tokens_per_second=self._generated.rate(at),
            generation_tokens_total=engine.counters.generation_tokens,
        )


class Fleet:
    """Engines of the given speeds under Poisson arrivals of `load` (1 is what they finish at saturation)."""

    def __init__(self, speeds: Sequence[float], *, load: float, seed: int, chat: Chat | None = None) -> None:
        self._speeds = tuple(speeds)
        self._rng, self._chat = random.Random(seed), chat or Chat()
        self.replicas = [Replica(f"10.0.0.{n}:8000", Engine(EngineParams(speed=s))) for n, s in enumerate(speeds, 1)]
        self.per_second = load * SATURATED_PER_SECOND * sum(speeds)
        self._next = self._rng.expovariate(self.per_second)
        self._robin = RoundRobin()

    def change_speed(self, index: int, factor: float) -> None:
        """One engine runs at `factor` times its first speed from here on."""
        engine = self.replicas[index].engine
        engine.params = replace(engine.params, speed=self._speeds[index] * factor)

    def advance(self, to: float, weights: Mapping[str, float]) -> None:
        """Send what arrives until `to` by weight, and run the engines."""
        by_address = {replica.address: replica for replica in self.replicas}
        while self._next <= to:
            chosen = by_address[self._robin.choose(weights)]
            chosen.advance(self._next)
            chosen.engine.submit(self._chat.draw(self._rng), self._next)
            chosen.sent += 1
            self._next += self._rng.expovariate(self.per_second)
        for replica in self.replicas:
            replica.advance(to)

    def finish(self, at: float) -> None:
        """Run the engines from that second on, without arrivals, until they have answered everything."""
        for replica in self.replicas:
            to = at
            while replica.engine.running or replica.engine.waiting:
                to += 1.0
                replica.advance(to)


class RoundRobin:
    """Smooth weighted round robin: exact shares, evenly spread, as Envoy's."""

    def __init__(self) -> None:
        self._credit: dict[str, float] = {}

    def choose(self, weights: Mapping[str, float]) -> str:
        for address, weight in weights.items():
            self._credit[address] = self._credit.get(address, 0.0) + weight
        chosen = max(weights, key=lambda address: self._credit[address])
        self._credit[chosen] -= sum(weights.values())
        return chosen


def saturated(
    params: EngineParams | None = None, *, seconds: float = 120.0, seed: int = 1, chat: Chat | None = None
) -> float:
    """Requests/s that one engine finishes while requests always wait."""
    replica, rng = Replica("a:1", Engine(params or EngineParams())), random.Random(seed)
    for step in range(int(seconds * 10)):
        replica.advance(step / 10)
        while replica.engine.waiting < 5:
            replica.engine.submit((chat or Chat()).draw(rng), step / 10)
    counted = [one for one in replica.done if one.at > seconds / 4]
    return len(counted) / (seconds * 3 / 4)
