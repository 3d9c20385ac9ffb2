"""A gateway that is steered through Redis alone, at random, under traffic that has no reason to fail."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final

import httpx

from tests.soak.live import Live
from tests.xds.stand_ins import Engine
from tidegate.domain.sample import EndpointSample, NodeSample, NodeTick, Status
from tidegate.runtime import now_ms
from tidegate.store.redis import RedisStore

CLUSTERS: Final = {"steady": "weighted", "free": "weighted", "picked": "pick"}
TTL_MS: Final = 3_000
TICK_SECONDS: Final = 0.1
TUNES: Final = {
    "envoy.balance": ("round_robin", "least_request"),
    "envoy.connect_timeout_ms": ("500", "1500"),
    "envoy.eject_after": ("0", "5"),
    "envoy.retries": ("1", "3"),
}


@dataclass
class RedisSoak:
    """One agent's and one operator's doing. The first replica of each cluster always serves; all others come and go.

    Engines outlive their membership, as those do that drain before they end.
    """

    live: Live
    store: RedisStore
    engines: list[Engine]
    rng: random.Random
    members: dict[tuple[str, str], Status] = field(default_factory=dict)
    gone: list[tuple[str, str]] = field(default_factory=list)
    outcomes: Counter[str] = field(default_factory=Counter)
    steps: Counter[str] = field(default_factory=Counter)
    oldest_unacked_ms: int = 0
    troubles: set[str] = field(default_factory=set)

    async def run(self, seconds: float) -> None:
        """Change at random for so long, then wait until Envoy has what the agent registers and nothing else."""
        self.members = {(name, self.engines[0].address): Status.READY for name in CLUSTERS}
        stop = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._agent(stop))
            await self._until(self._all_serve, "every cluster serving")
            for work in (self._load, self._load, self._load, self._watch):
                group.create_task(work(stop))
            async with asyncio.timeout(seconds + 60):
                await self._change(asyncio.get_running_loop().time() + seconds)
                await self._until(self._envoy_has_the_members, "Envoy having every member and no other")
            stop.set()

    # --- the agent and the operator -------------------------------------------------------------------------

    async def _agent(self, stop: asyncio.Event) -> None:
        """Publish every member ten times a second, each time with another load, and say who left."""
        while not stop.is_set():
            at, left = now_ms(), tuple(self.gone)
            samples = tuple(self._sample(place, status, at) for place, status in self.members.items())
            node = NodeSample(node="node", sampled_at_ms=at, seq=at, nvml="no_library", gpus={})
            await self.store.publish(NodeTick(node=node, endpoints=samples, gone=left), ttl_ms=TTL_MS)
            self.gone = self.gone[len(left) :]
            await asyncio.sleep(TICK_SECONDS)

    def _sample(self, place: tuple[str, str], status: Status, at_ms: int) -> EndpointSample:
        cluster, address = place
        load: dict[str, Any] = {"running": self.rng.randrange(9), "kv_used_ratio": self.rng.uniform(0, 0.9)}
        return EndpointSample(
            cluster=cluster, address=address, node="node", sampled_at_ms=at_ms, seq=at_ms, status=status, **load
        )

    async def _change(self, end: float) -> None:
        """Every kind of step in each round, in any order; replicas join twice, so that there are some."""
        changes = [self._state, self._weight, self._unpin, self._drain, self._undrain, self._tune]
        steps = [self._join, self._join, self._leave, *changes]
        while True:
            for step in self.rng.sample(steps, len(steps)):
                if asyncio.get_running_loop().time() >= end:
                    return
                if await step():
                    self.steps[step.__name__.strip("_")] += 1
                await asyncio.sleep(self.rng.uniform(0.0, 0.15))

    async def _join(self) -> bool:
        place = self._cluster(), self.rng.choice(self.engines[1:]).address
        self.members.setdefault(place, Status.READY)
        return True

    async def _leave(self) -> bool:
        return await self._to_one(self._forget)

    async def _forget(self, place: tuple[str, str]) -> None:
        del self.members[place]
        self.gone.append(place)

    async def _state(self) -> bool:
        async def told(place: tuple[str, str]) -> None:
            self.members[place] = self.rng.choice([Status.READY, Status.LOADING, Status.DRAINING, Status.UNREACHABLE])

        return await self._to_one(told)

    async def _weight(self) -> bool:
        async def pin(place: tuple[str, str]) -> None:
            await self.store.set_field(f"weight:{place[0]}", place[1], str(self.rng.choice([0, 1, 500, 1000])))

        return await self._to_one(pin)

    async def _unpin(self) -> bool:
        return await self._to_one(lambda place: self.store.clear_field(f"weight:{place[0]}", place[1]))

    async def _drain(self) -> bool:
        return await self._to_one(lambda place: self.store.set_field(f"drain:{place[0]}", place[1], "fan"))

    async def _undrain(self) -> bool:
        return await self._to_one(lambda place: self.store.clear_field(f"drain:{place[0]}", place[1]))

    async def _tune(self) -> bool:
        key, name = self.rng.choice(["tune", f"tune:{self._cluster()}"]), self.rng.choice(sorted(TUNES))
        if self.rng.random() < 0.5:
            await self.store.set_field(key, name, self.rng.choice(TUNES[name]))
        else:
            await self.store.clear_field(key, name)
        return True

    async def _to_one(self, act: Callable[[tuple[str, str]], Awaitable[object]]) -> bool:
        """To any member but the first of its cluster; whether there was one."""
        others = sorted(place for place in self.members if place[1] != self.engines[0].address)
        if others:
            await act(self.rng.choice(others))
        return bool(others)

    def _cluster(self) -> str:
        return self.rng.choice(sorted(CLUSTERS))

    # --- traffic and what is looked at ----------------------------------------------------------------------

    async def _load(self, stop: asyncio.Event) -> None:
        async with httpx.AsyncClient(timeout=20) as client:
            while not stop.is_set():
                self.outcomes[await self._ask(client, self._cluster())] += 1
                await asyncio.sleep(0.005)

    async def _ask(self, client: httpx.AsyncClient, cluster: str) -> str:
        """In the cluster with a picker the request names two replicas, which may have left."""
        picked = {"pick": ",".join(self.rng.choice(self.engines).address for _ in range(2))}
        body = {"model": cluster, **(picked if CLUSTERS[cluster] == "pick" else {})}
        answer = await client.post(f"{self.live.gateway}/v1/chat/completions", json=body)
        return f"{answer.status_code} {answer.headers.get('x-tidegate-reason', '')}".strip()

    async def _watch(self, stop: asyncio.Event) -> None:
        """Of every beat of xds: pushes without a verdict, refusals by Envoy, and what xds refuses to serve."""
        while not stop.is_set():
            for said in (await self.store.present()).get("xds", {}).values():
                self.troubles |= {f"refused: {why}" for why in said["refused"].values()}
                for envoy in said["envoys"]:
                    self.oldest_unacked_ms = max(self.oldest_unacked_ms, envoy["oldest_unacked_ms"] or 0)
                    self.troubles |= {f"NACK: {envoy['last_error']}"} if envoy["last_error"] else set()
            await asyncio.sleep(0.25)

    async def _all_serve(self) -> bool:
        async with httpx.AsyncClient(timeout=5) as client:
            return {await self._ask(client, name) for name in CLUSTERS} == {"200"}

    async def _envoy_has_the_members(self) -> bool:
        served = await self.live.endpoints_of_envoy()
        return all({a for c, a in self.members if c == name} == served.get(name, set()) for name in CLUSTERS)

    async def _until(self, condition: Callable[[], Awaitable[bool]], what: str) -> None:
        end = asyncio.get_running_loop().time() + 30
        while asyncio.get_running_loop().time() < end:
            try:
                if await condition():
                    return
            except httpx.TransportError:
                pass
            await asyncio.sleep(0.05)
        raise AssertionError(f"{what} did not hold within 30 s")
