"""One controller over one store: what it looks at, when it leads, what it decides and what of that it writes."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import structlog

from controller.audit import CONTROLLER, OPERATOR, changes, explained_alike, figures_alike, unsaid
from controller.decide import World, decide_all
from controller.latencies import latencies
from controller.mixes import entropies
from controller.orders import joined
from controller.roster import roster
from controller.state import State, restored
from controller.turns import Turns
from tidegate.domain.actions.effects import Effects
from tidegate.domain.errors import NotLeading, StoreError, StoreRefused
from tidegate.domain.lease import Lease
from tidegate.domain.membership import Membership
from tidegate.domain.operators import FieldChange
from tidegate.domain.sample import EndpointSample
from tidegate.domain.strays import strays
from tidegate.domain.topology import Topology
from tidegate.domain.weights import Rules
from tidegate.runtime import now_ms
from tidegate.store.ports import ClusterDecision, Event, RawOperatorKeys, Store
from tidegate.store.schema import TUNED

BEAT_EVERY_MS: Final = 1_000
BEAT_TTL_MS: Final = 3_000
LEASE_MS: Final = 2_000
"""How long a lead outlives a leader that was killed: takeover, with a tick more, is done within three seconds."""
RENEW_SECONDS: Final = 0.5
STANDBY_SECONDS: Final = 1.0
"""Between two looks of a controller that stands by, so that it knows the members when it takes over."""
EXPLAIN_EVERY_MS: Final = 1_000
EVENTS_SEARCHED: Final = 200

log = structlog.get_logger("controller")


@dataclass(slots=True)
class Controller:
    """One controller over one store. `tick()` is one look and one decision; call it from one task.

    Of several, the one that has the lease decides; the others look, and write nothing but that they live.
    """

    store: Store
    topology: Topology
    sample_ttl_ms: int = 3_000
    rules: Rules | None = None
    clock: Callable[[], int] = now_ms
    instance: str = "controller"
    _state: State | None = None
    _world: World | None = None
    _strays: Mapping[str, str] = field(default_factory=dict)
    _entropies: Mapping[tuple[str, str], float] = field(default_factory=dict)
    _latencies: Mapping[tuple[str, str], float] = field(default_factory=dict)
    _explained_at_ms: dict[str, int] = field(default_factory=dict)
    _explained: dict[str, Mapping[str, Mapping[str, Any]]] = field(default_factory=dict)
    _beat_at_ms: int | None = None
    _lease: Lease | None = None
    _renew_at: float = 0.0
    _continued: bool = False
    _stood_by_at: float | None = None
    _news: Event | None = None
    _turns: Turns = field(default_factory=Turns)
    _followed: Lease | None = None

    @property
    def leads(self) -> bool:
        """Whether this controller had the lease when it last asked."""
        return self._lease is not None

    @property
    def lease(self) -> Lease | None:
        """The lease that this controller had when it last asked."""
        return self._lease

    @property
    def seen(self) -> tuple[World, State] | None:
        """What it saw at its last look, and what it decided; None before the first."""
        return None if self._world is None or self._state is None else (self._world, self._state)

    async def tick(self) -> int:
        """Publish what changed; how many clusters were written. Raises StoreError, and then changes nothing.

        A store that holds nothing of what was published was emptied: what operators typed is written back, and stays
        in force. Who does not lead, or is found not to as it writes, publishes nothing.
        """
        return await self._as_leader(self._tick)

    async def _tick(self) -> int:
        if not await self._lead():
            await self._stand_by()
            return 0
        if not self._continued:
            await self._continue()
        world = await self._look(self._names)
        return await self._decide(self._state or await self._restored(world.keys), world)

    async def _as_leader(self, act: Callable[[], Awaitable[int]]) -> int:
        """Act. Where the lease has lapsed, take it again and look at everything, unless somebody else has it."""
        for attempt in (act, self._tick):
            try:
                return await attempt()
            except NotLeading:
                self._lease = None
        return 0

    async def keep_lead(self) -> None:
        """Extend the lease while a tick takes its time, until cancelled: a busy machine loses no lead."""
        while True:
            await asyncio.sleep(RENEW_SECONDS)
            lease = self._lease
            try:
                if lease is not None:
                    await self.store.keep_lead(lease, ttl_ms=LEASE_MS)
            except NotLeading:
                self._lease = None if self._lease is lease else self._lease
            except StoreError:  # the tick says so
                continue

    def _in_force(self) -> Lease:
        """What a write is fenced by. Raises NotLeading: no write is without a fence."""
        if self._lease is None:
            raise NotLeading("another controller leads")
        return self._lease

    async def resign(self) -> None:
        """Let another one lead at once. Raises StoreError."""
        if self._lease is not None:
            await self.store.resign(self._lease)
            self._lease = None

    async def _lead(self) -> bool:
        """Take the lease, or extend it. Raises NotLeading where it was lost."""
        now = time.monotonic()
        if self._lease is None:
            self._lease = await self.store.take_lead(self.instance, ttl_ms=LEASE_MS)
            if self._lease is None:
                return False
            self._continued = False
            self._say_that_it_leads(self._lease)
        elif now >= self._renew_at:
            await self.store.keep_lead(self._lease, ttl_ms=LEASE_MS)
        else:
            return True
        self._renew_at = now + RENEW_SECONDS
        return True

    async def _continue(self) -> None:
        """Go on from what was published, unless that is its own, or nothing: then Redis was emptied."""
        published = {name: fields for name, fields in (await self.store.effective(self._names)).items() if fields}
        if self._state is not None and published not in ({}, self._state.weights()):
            self._state = None
        self._continued = True

    def _say_that_it_leads(self, lease: Lease) -> None:
        log.info("this controller leads", instance=self.instance, token=lease.token)
        if self._stood_by_at is not None:
            before = self._followed.instance if self._followed else ""
            why = "the lease before it has ended"
            said = {"who": CONTROLLER, "what": "leader", "before": before, "after": self.instance, "why": why}
            self._news = Event(at_ms=self.clock(), **said)
        self._stood_by_at = self._followed = None

    def _say_leader(self, leader: Lease | None) -> None:
        if leader is not None and leader != self._followed:
            log.info("another controller leads; this one stands by", instance=self.instance, leader=leader.instance)
            self._followed = leader

    async def _stand_by(self) -> None:
        now = time.monotonic()
        if self._stood_by_at is None or now - self._stood_by_at >= STANDBY_SECONDS:
            self._stood_by_at = now
            self._say_leader(await self.store.leader())
            self._world = await self._look(self._names)
            self._state = self._state or await self._restored(self._world.keys)
            await self._beat(self.clock())

    async def _restored(self, keys: RawOperatorKeys) -> State:
        return restored(await self.store.explain(self._names), await self.store.rejected(), keys.tuned)

    async def orders(self) -> int:
        """`tick` without a look at samples, and nothing at all while operators' keys are as they were."""
        return await self._as_leader(self._orders)

    async def _orders(self) -> int:
        if self._state is None or self._world is None or self._lease is None:
            return 0
        asked = self.store.operator_keys(self._names, self.topology.split_models), self.store.effects()
        keys, effects = await asyncio.gather(*asked)
        if keys == self._world.keys and effects == self._world.effects:
            return 0
        return await self._decide(self._state, replace(self._world, keys=keys, effects=effects, looked=None))

    @property
    def _names(self) -> list[str]:
        return [c.name for c in self.topology.clusters]

    async def _decide(self, before: State, world: World) -> int:
        published = await self.store.effective(self._names)
        emptied = not any(published.values()) and self._state is not None and any(before.explained.values())
        if emptied and self._world is not None:
            keys = joined(self._world.keys, world.keys)
            world = replace(world, keys=keys, effects=self._world.effects, looked=None)
            await self.store.restore(world.keys, world.membership.heard_ms, lease=self._in_force())
            log.warning("Redis was emptied; members and operators' keys were written back")
        after, decisions = decide_all(
            self.topology, world, before, sample_ttl_ms=self.sample_ttl_ms, rules=self.rules or Rules()
        )
        ordered = self._world is not None and _ordered(self._world, world)
        written = await self._publish(before, after, decisions, published, ordered=ordered)
        self._state, self._world = after, world
        self._state = await self._settled(after, world.keys)
        await self._beat(self.clock())
        return written

    async def _look(self, names: Sequence[str]) -> World:
        """Keys are read before what was published: keys that are missing by accident show there."""
        asked = self.store.operator_keys(names, self.topology.split_models), self.store.effects()
        keys, effects = await asyncio.gather(*asked)
        (registered, departed), now_ms = await self.store.roll(), self.clock()
        known = self._world.membership if self._world is not None else Membership()
        membership = known.after(registered, now_ms, departed)
        looked = self._looked(keys, effects, membership)
        return World(
            now_ms=now_ms,
            keys=keys,
            samples=await self._samples(looked),
            looked=looked,
            membership=membership,
            entropies=self._entropies,
            latencies=self._latencies,
            strays=self._strays,
            effects=effects,
        )

    def _looked(self, keys: RawOperatorKeys, effects: Effects, membership: Membership) -> set[str] | None:
        """The clusters whose turn it is; all (None) as it begins to lead, and when orders, acts or members change."""
        before = self._world
        if self._state is None or before is None or not self.leads:
            return None
        if before.keys != keys or before.effects != effects or before.membership.members != membership.members:
            return None
        return self._turns.take({name: len(one) for name, one in roster(self.topology, membership).items()})

    async def _samples(self, looked: set[str] | None) -> list[EndpointSample]:
        """Of the clusters that are looked at; of the others, what was known."""
        if looked is None or self._world is None:
            return await self.store.samples()
        known = [sample for sample in self._world.samples if sample.cluster not in looked]
        return known if not looked else known + await self.store.samples(looked)

    async def look_at_mixes(self) -> None:
        """What pickers tell of each replica's requests; it counts from the next tick on. Raises StoreError."""
        self._entropies = entropies(await self.store.mixes())

    async def look_at_outcomes(self) -> None:
        """What Envoy saw of replicas whose engines tell no p99; it counts from the next tick on. Raises StoreError."""
        samples = self._world.samples if self._world is not None else ()
        wanted = {(one.cluster, one.address) for one in samples if one.latency_p99_ms is None}
        clusters = sorted({cluster for cluster, _ in wanted})
        self._latencies = latencies(await self.store.outcomes(clusters), wanted) if wanted else {}

    async def look_for_strays(self) -> None:
        """Find keys that are for no cluster or model of the file; they are said at the next tick. Raises StoreError."""
        self._strays = strays(await self.store.operator_key_names(), self._names, self.topology.split_models)

    async def _publish(
        self,
        before: State,
        after: State,
        decisions: Sequence[ClusterDecision],
        published: Mapping[str, Mapping[str, int]],
        *,
        ordered: bool,
    ) -> int:
        """Write clusters whose published weights differ, also when someone else changed or lost them.

        Readers hear at once of what operators typed, which may be a tunable that touches no weight, and of replicas
        that come and go. Weights that move with load wait for the readers' next look.
        """
        at_ms = self.clock()
        parts = (self._due(decision, published, before, after, at_ms) for decision in decisions)
        due = [part for part in parts if part is not None]
        events = [*([self._news] if self._news else []), *changes(before, after, at_ms)]
        if any(event.who == OPERATOR for event in events):
            events = unsaid(events, await self.store.events(EVENTS_SEARCHED))
        rejected = after.intent.rejected
        if due or events or rejected != await self.store.rejected():
            await self.store.write_decisions(due, rejected, events, lease=self._in_force())
            self._news = None
        if events or ordered:
            await self.store.nudge()
        for decision in due:
            if decision.explain is not None:
                self._explained_at_ms[decision.cluster] = at_ms
                self._explained[decision.cluster] = decision.explain
        return len(due)

    async def _settled(self, after: State, keys: RawOperatorKeys) -> State:
        """Write down the tunes in force, and the ends of orders; an order whose time is over loses its field.

        The state in which an end that is written down counts from then on: the same words, typed again, begin anew.
        """
        names = sorted(after.tuned.keys() | keys.tuned.keys())
        tuned = [
            FieldChange(key=TUNED, field=name, value=after.tuned.get(name))
            for name in names
            if after.tuned.get(name) != keys.tuned.get(name)
        ]
        if tuned:
            await self.store.change_fields(tuned, (), lease=self._in_force())
            await self.store.nudge()
        if after.intent.settled:
            try:
                await self.store.change_fields(after.intent.settled, (), lease=self._in_force())
            except StoreRefused as exc:  # no EVAL for us: the order is kept as it was read, in this process
                log.warning("the end of an order is not written down", error=str(exc))
                return after
        return replace(after, intent=replace(after.intent, typed={}))

    def _due(
        self,
        decision: ClusterDecision,
        published: Mapping[str, Mapping[str, int]],
        before: State,
        after: State,
        at_ms: int,
    ) -> ClusterDecision | None:
        """What of a decision is to be written: all, the weights alone, or nothing."""
        name, explain = decision.cluster, decision.explain or {}
        if not published.get(name) or not explained_alike(before.explained, after.explained, name):
            return decision if published.get(name) or decision.effective else None
        rested = at_ms - self._explained_at_ms.get(name, 0) >= EXPLAIN_EVERY_MS
        if rested and not figures_alike(self._explained.get(name), explain):
            return decision
        return None if published.get(name, {}) == decision.effective else replace(decision, explain=None)

    async def _beat(self, at_ms: int) -> None:
        if self._beat_at_ms is None or at_ms - self._beat_at_ms >= BEAT_EVERY_MS:
            await self.store.beat(
                "controller", self.instance, {"pid": os.getpid(), "leads": self.leads}, ttl_ms=BEAT_TTL_MS
            )
            self._beat_at_ms = at_ms


def _ordered(before: World, after: World) -> bool:
    """Whether an operator or an act changed something."""
    return before.keys != after.keys or before.effects != after.effects
