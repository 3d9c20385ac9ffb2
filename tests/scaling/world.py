"""A cluster on a store in memory, its leader's weights and targets, and a clock that the test moves."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from prometheus_client import CollectorRegistry

from controller.controller import Controller
from controller.scaling.duty import Scaling
from controller.scaling.metrics import ScaleMetrics
from tests.controller.world import TOPOLOGY, Clock, tick
from tidegate.domain.lease import Lease
from tidegate.domain.scaling.rule import Target
from tidegate.store.memory import MemoryStore
from tidegate.store.ports import Event, Store

TTL_MS = 3_000
LEASE_MS = 10**12
CLUSTER = "phi-3"


@dataclass
class Leader:
    """One controller: its weights are decided before its targets, as in a process that runs both."""

    store: Store
    clock: Clock
    instance: str = "a"
    registry: CollectorRegistry = field(default_factory=CollectorRegistry)
    lease: Lease | None = None

    def __post_init__(self) -> None:
        self.metrics = ScaleMetrics(self.registry, seconds=lambda: self.clock() / 1000)
        self.duty = Scaling(self.store, TOPOLOGY, self.metrics)

    async def lead(self) -> None:
        self.lease = await self.store.take_lead(self.instance, ttl_ms=LEASE_MS)
        assert self.lease is not None

    async def resign(self) -> None:
        assert self.lease is not None
        await self.store.resign(self.lease)

    async def explain(self) -> None:
        """What the weight loop publishes, by a controller that knows nothing but the store."""
        assert self.lease is not None
        controller = Controller(self.store, TOPOLOGY, clock=self.clock, instance=self.instance, sample_ttl_ms=TTL_MS)
        controller._lease, controller._renew_at = self.lease, float("inf")
        await controller.tick()

    def value(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(name, {"cluster": CLUSTER, **labels})


@dataclass
class World:
    """`load` (KV use, or a Status) is what both replicas say unless the test says otherwise."""

    clock: Clock = field(default_factory=Clock)

    def __post_init__(self) -> None:
        self.store = MemoryStore(self.clock)
        self.leader = Leader(self.store, self.clock)

    async def pass_seconds(self, seconds: int, **replicas: Any) -> None:
        """One look a second, with fresh samples of the given replicas; without any, agents are silent."""
        for second in range(seconds):
            self.clock.at_ms += 1_000
            if replicas:
                await self.store.publish(tick(self.clock(), seq=self.clock() + second, **replicas), ttl_ms=TTL_MS)
            await self.leader.explain()
            await self.look()

    async def look(self) -> None:
        assert self.leader.lease is not None
        await self.leader.duty.tick(self.leader.lease)

    async def target(self) -> Target:
        return (await self.store.targets([CLUSTER]))[CLUSTER].target

    async def said(self, what: str = f"scale:{CLUSTER}") -> list[Event]:
        return [event for event in await self.store.events(1_000) if event.what == what]
