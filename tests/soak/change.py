"""A gateway whose clusters and endpoints change at random, under light traffic that has no reason to fail."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

from tests.conftest import until
from tests.xds.conftest import Gateway, cluster, endpoint
from tests.xds.stand_ins import Engine
from tidegate.domain.topology import LbPolicy
from tidegate.domain.upstream import Balance
from xds_server.desired import DesiredCluster

CLUSTERS = 6
MOST_UNACKED_MS = 5_000


@dataclass
class Soak:
    """Each step changes one cluster. Traffic goes to clusters that are accepted, and leaves before they do."""

    gateway: Gateway
    engines: list[Engine]
    rng: random.Random
    clusters: dict[str, DesiredCluster] = field(default_factory=dict)
    open: set[str] = field(default_factory=set)
    in_flight: Counter[str] = field(default_factory=Counter)
    outcomes: Counter[str] = field(default_factory=Counter)
    steps: Counter[str] = field(default_factory=Counter)
    oldest_unacked_ms: int = 0
    nacks: list[str] = field(default_factory=list)

    async def run(self, seconds: float) -> None:
        """Change at random for so long."""
        self.clusters["steady"] = self._new("steady")
        await self.gateway.serve(*self.clusters.values())
        self.open.add("steady")
        stop = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            for _ in range(3):
                group.create_task(self._load(stop))
            group.create_task(self._watch(stop))
            async with asyncio.timeout(seconds + 60):
                await self._change(asyncio.get_running_loop().time() + seconds)
            stop.set()

    async def _change(self, end: float) -> None:
        loop = asyncio.get_running_loop()
        while loop.time() < end:
            step = self.rng.choice([self._add, self._remove, self._settings, self._endpoints, self._endpoints])
            await step()
            self.steps[step.__name__.strip("_")] += 1
            await asyncio.sleep(self.rng.uniform(0.0, 0.1))

    async def _add(self) -> None:
        name = self.rng.choice([f"c{n}" for n in range(CLUSTERS)])
        if name not in self.clusters:
            self.clusters[name] = self._new(name)
            await self.gateway.serve(*self.clusters.values())
            self.open.add(name)

    async def _remove(self) -> None:
        names = sorted(self.open - {"steady"})
        if names:
            name = self.rng.choice(names)
            self.open.discard(name)
            await until(lambda: not self.in_flight[name], what="requests to a cluster that goes")
            del self.clusters[name]
            self._publish()

    async def _settings(self) -> None:
        one = self._any()
        tuned = replace(
            one.upstream,
            balance=self.rng.choice(list(Balance)),
            connect_timeout_ms=self.rng.randint(500, 1500),
            eject_after=self.rng.choice([0, 5]),
        )
        self.clusters[one.name] = replace(one, upstream=tuned, lb=self.rng.choice(list(LbPolicy)))
        self._publish()

    async def _endpoints(self) -> None:
        one = self._any()
        self.clusters[one.name] = replace(one, endpoints=self._some_endpoints())
        self._publish()

    def _publish(self) -> None:
        """Serve without waiting: the next change may come before this one was accepted."""
        self.gateway.cache.set(self.gateway.snapshot(*self.clusters.values()))

    def _any(self) -> DesiredCluster:
        return self.clusters[self.rng.choice(sorted(self.clusters))]

    def _new(self, name: str) -> DesiredCluster:
        return replace(cluster(name, lb=self.rng.choice(list(LbPolicy))), endpoints=self._some_endpoints())

    def _some_endpoints(self) -> Any:
        """Some of the engines at any weights, one at least with traffic; others drained."""
        chosen = self.rng.sample(self.engines, self.rng.randint(1, len(self.engines)))
        weights = [self.rng.randint(1, 1000), *(self.rng.choice([0, self.rng.randint(1, 1000)]) for _ in chosen[1:])]
        return tuple(endpoint(engine, weight) for engine, weight in zip(chosen, weights, strict=True))

    async def _load(self, stop: asyncio.Event) -> None:
        while not stop.is_set():
            name = self.rng.choice(sorted(self.open))
            self.in_flight[name] += 1
            answer = await self.gateway.post({"model": name})
            self.in_flight[name] -= 1
            self.outcomes[f"{answer.status_code} {answer.headers.get('x-tidegate-reason', '')}".strip()] += 1
            await asyncio.sleep(0.005)

    async def _watch(self, stop: asyncio.Event) -> None:
        while not stop.is_set():
            for status in self.gateway.status():
                self.oldest_unacked_ms = max(self.oldest_unacked_ms, status.oldest_unacked_ms or 0)
                self.nacks += [] if status.last_error is None else [status.last_error]
            await asyncio.sleep(0.02)
