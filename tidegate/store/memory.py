"""The store without a server: same contract, one process, the clock passed in. For tests and simulation.

One file, if a long one: its methods share what they keep.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from typing import Any

from tidegate.domain.actions.act import Act
from tidegate.domain.actions.effects import Effects, summed
from tidegate.domain.actions.notice import Notice
from tidegate.domain.errors import NotLeading, StoreUnavailable
from tidegate.domain.lease import Lease
from tidegate.domain.operators import FieldChange
from tidegate.domain.outcomes.report import Report
from tidegate.domain.sample import EndpointSample, NodeSample, NodeTick
from tidegate.domain.scaling.rule import Course
from tidegate.store import rollouts, schema
from tidegate.store.acts import ALERTS, KEPT_MARK, decode_acts, decode_notices, encode_acts, encode_notice
from tidegate.store.outcomes import decode_report, encode_report
from tidegate.store.outcomes import fields as outcome_fields
from tidegate.store.picks import PickBatch
from tidegate.store.ports import ClusterDecision, Delivered, Event, Mix, RawOperatorKeys
from tidegate.store.rollouts import SplitLine

TICKS_KEPT = 10_000  # a reader that falls further behind loses its connection, as it does on Redis


class MemoryStore:
    """tidegate.store.ports.Store in memory. `clock_ms` decides what has expired. Use it from one event loop.

    `available` set to False makes every call raise StoreUnavailable, as a lost Redis does.
    """

    def __init__(self, clock_ms: Callable[[], int]) -> None:
        self.available = True
        self._clock_ms = clock_ms
        self._samples: dict[tuple[str, str], tuple[EndpointSample, int]] = {}
        self._index: dict[tuple[str, str], int] = {}
        self._gone: dict[tuple[str, str], int] = {}
        self._nodes: dict[str, tuple[NodeSample, int]] = {}
        self._hashes: dict[str, dict[str, str]] = {}
        self._effective: dict[str, dict[str, int]] = {}
        self._explain: dict[str, dict[str, dict[str, Any]]] = {}
        self._rejected: dict[str, str] = {}
        self._events: deque[Event] = deque(maxlen=schema.EVENTS_KEPT)
        self._logged = 0
        self._beats: dict[tuple[str, str], tuple[bytes, int]] = {}
        self._lead: tuple[Lease, int] | None = None
        self._acts: dict[str, bytes] = {}
        self._inbox: list[bytes] = []
        self._notices: dict[str, bytes] = {}
        self._targets: dict[str, Course] = {}
        self._mixes: dict[str, tuple[bytes, int]] = {}
        self._split_lines: dict[str, deque[SplitLine]] = {}
        self._outcomes: dict[str, tuple[dict[str, bytes], int]] = {}
        self._readers: set[asyncio.Queue[NodeTick | None]] = set()
        self._nudged: set[asyncio.Queue[bool]] = set()
        self._pickers: set[asyncio.Queue[PickBatch | None]] = set()

    async def publish(self, tick: NodeTick, *, ttl_ms: int) -> None:
        """Keep the samples until `ttl_ms` has passed and hand the tick to every reader."""
        expires = self._now() + ttl_ms
        self._nodes[tick.node.node] = (tick.node, expires)
        for sample in tick.endpoints:
            place = (sample.cluster, sample.address)
            self._samples[place] = (sample, expires)
            self._index[place] = sample.sampled_at_ms
        for place in tick.gone:
            self._samples.pop(place, None)
            self._index.pop(place, None)
            self._gone[place] = tick.node.sampled_at_ms
        for reader in self._readers:
            self._hand(reader, tick)

    def _hand(self, reader: asyncio.Queue[NodeTick | None], tick: NodeTick | None) -> None:
        if reader.qsize() < TICKS_KEPT:
            reader.put_nowait(tick)
        elif reader.qsize() == TICKS_KEPT:
            reader.put_nowait(None)

    async def samples(self, clusters: Collection[str] | None = None) -> list[EndpointSample]:
        """Every endpoint of the index whose sample has not expired."""
        now = self._now()
        kept = [(place, sample) for place, (sample, expires) in self._samples.items() if expires > now]
        here = [sample for place, sample in kept if self._gone.get(place, -1) < sample.sampled_at_ms]
        return [sample for sample in here if clusters is None or sample.cluster in clusters]

    async def registered(self) -> list[tuple[str, str, int]]:
        """(cluster, address, sampled_at_ms) of the index, oldest first, also of expired samples."""
        self._now()
        seen = ((*place, at) for place, at in self._index.items() if self._gone.get(place, -1) < at)
        return sorted(seen, key=lambda one: (one[2], one[:2]))

    async def departed(self) -> set[tuple[str, str]]:
        """(cluster, address) that left after their last sample, within the last hour."""
        oldest = self._now() - schema.INDEX_KEPT_MS
        return {place for place, at in self._gone.items() if self._index.get(place, 0) <= at and at >= oldest}

    async def roll(self) -> tuple[list[tuple[str, str, int]], set[tuple[str, str]]]:
        """Who is registered, and who departed."""
        return await self.registered(), await self.departed()

    async def nodes(self) -> list[NodeSample]:
        """Every node whose sample has not expired."""
        now = self._now()
        return [node for node, expires in self._nodes.values() if expires > now]

    async def ticks(self) -> AsyncIterator[NodeTick]:
        """Ticks from the moment of the first `anext`. Raises StoreUnavailable after `close()`."""
        self._now()
        reader: asyncio.Queue[NodeTick | None] = asyncio.Queue()
        self._readers.add(reader)
        try:
            while (tick := await reader.get()) is not None:
                yield tick
        finally:
            self._readers.discard(reader)
        raise StoreUnavailable("the store is closed, or this reader fell too far behind")

    async def operator_keys(self, clusters: Sequence[str], models: Sequence[str]) -> RawOperatorKeys:
        """Weights, drains, tunes and splits that are there."""
        self._now()
        return RawOperatorKeys(
            weights=self._named(clusters, schema.weight_key),
            drains=self._named(clusters, schema.drain_key),
            tunes=self._named(("", *clusters), schema.tune_key),
            splits=self._named(models, schema.split_key),
            tuned=dict(self._hashes.get(schema.TUNED, {})),
        )

    def _named(self, names: Sequence[str], key_of: Callable[[str], str]) -> dict[str, dict[str, str]]:
        return {name: dict(found) for name in names if (found := self._hashes.get(key_of(name)))}

    async def operator_key_names(self) -> list[str]:
        """The names of keys that hold a field."""
        self._now()
        return [key for key, fields in self._hashes.items() if fields and key.startswith(schema.OPERATOR_KINDS)]

    async def set_field(self, key: str, field: str, value: str) -> None:
        """Set a field of an operator key."""
        self._now()
        self._hashes.setdefault(key, {})[field] = value

    async def clear_field(self, key: str, field: str) -> bool:
        """Remove a field; True when it was there."""
        self._now()
        return self._hashes.get(key, {}).pop(field, None) is not None

    async def change_fields(
        self, changes: Sequence[FieldChange], events: Sequence[Event], *, lease: Lease | None = None
    ) -> list[bool]:
        """Carry out the changes and keep the events."""
        self._fence(lease)
        self._log(events)
        return [self._change(change) for change in changes]

    def _change(self, change: FieldChange) -> bool:
        fields = self._hashes.setdefault(change.key, {})
        if change.only_if is not None and fields.get(change.field) != change.only_if:
            return False
        if change.value is None:
            return fields.pop(change.field, None) is not None
        fields[change.field] = change.value
        return True

    def _log(self, events: Sequence[Event]) -> None:
        self._events.extend(events)
        self._logged += len(events)

    async def write_decisions(
        self,
        decisions: Sequence[ClusterDecision],
        rejected: Mapping[str, str],
        events: Sequence[Event],
        *,
        lease: Lease | None = None,
    ) -> None:
        """Replace what is given; clusters that are not keep what they have."""
        self._fence(lease)
        for decision in decisions:
            self._effective[decision.cluster] = dict(decision.effective)
            if decision.explain is not None:
                self._explain[decision.cluster] = {
                    address: schema.from_json(schema.to_json(why)) or {} for address, why in decision.explain.items()
                }
        self._rejected = dict(rejected)
        self._log(events)

    async def restore(
        self, keys: RawOperatorKeys, heard_ms: Mapping[tuple[str, str], int], *, lease: Lease | None = None
    ) -> None:
        """Write what is missing; what is there stays."""
        self._fence(lease)
        for key, fields in {**schema.operator_hashes(keys), schema.TUNED: keys.tuned}.items():
            self._hashes[key] = {**fields, **self._hashes.get(key, {})}
        self._index = {**heard_ms, **self._index}

    async def effective(self, clusters: Sequence[str]) -> dict[str, dict[str, int]]:
        """The published weights by cluster and address."""
        self._now()
        return {one: dict(self._effective.get(one, {})) for one in clusters}

    async def explain(self, clusters: Sequence[str]) -> dict[str, dict[str, dict[str, Any]]]:
        """Why each weight is what it is, by cluster and address."""
        self._now()
        return {one: dict(self._explain.get(one, {})) for one in clusters}

    async def rejected(self) -> dict[str, str]:
        """Operator key → why it was not accepted."""
        self._now()
        return dict(self._rejected)

    async def events(self, count: int) -> list[Event]:
        """The newest `count` events, oldest first."""
        self._now()
        return list(self._events)[-count:] if count > 0 else []

    async def events_after(self, mark: str) -> tuple[list[Event], str]:
        """Events that were logged after as many as `mark` says."""
        self._now()
        fresh = min(self._logged - int(mark), len(self._events)) if mark else 0
        return list(self._events)[len(self._events) - fresh :], str(self._logged)

    async def take_lead(self, instance: str, *, ttl_ms: int) -> Lease | None:
        """A lease with the time as token, where none is in force."""
        if await self.leader() is not None:
            return None
        last = self._lead[0].token if self._lead else 0
        lease = Lease(instance, max(last + 1, self._now()))
        self._lead = (lease, self._now() + ttl_ms)
        return lease

    async def keep_lead(self, lease: Lease, *, ttl_ms: int) -> None:
        """Extend the lease in force."""
        self._fence(lease)
        self._lead = (lease, self._now() + ttl_ms)

    async def resign(self, lease: Lease) -> None:
        """End the lease in force."""
        if await self.leader() == lease:
            self._lead = (lease, 0)

    async def leader(self) -> Lease | None:
        """The lease that has not expired."""
        now = self._now()
        return self._lead[0] if self._lead and self._lead[1] > now else None

    def _fence(self, lease: Lease | None) -> None:
        now = self._now()
        if lease is not None and (self._lead is None or self._lead[0] != lease or self._lead[1] <= now):
            raise NotLeading("another controller leads")

    async def acts(self, source: str | None = None) -> list[Act]:
        """The acts of one source, or of all."""
        self._now()
        return decode_acts(raw for name, raw in self._acts.items() if source in {None, name})

    async def effects(self) -> Effects:
        """What they add up to."""
        return summed(await self.acts())

    async def write_acts(
        self, source: str, acts: Sequence[Act], events: Sequence[Event], *, lease: Lease | None = None
    ) -> None:
        """Keep the acts and the events."""
        self._fence(lease)
        self._acts[source] = encode_acts(acts)
        self._log(events)

    async def deliver(self, notices: Sequence[Notice], *, most: int) -> bool:
        """Keep them in order."""
        self._now()
        if len(self._inbox) + len(notices) > most:
            return False
        self._inbox += map(encode_notice, notices)
        return True

    async def delivered(self, count: int) -> Delivered:
        """The oldest entries."""
        now, entries = self._now(), self._inbox[:count]
        return Delivered(decode_notices(entries), len(entries), KEPT_MARK in self._notices, now)

    async def notices(self) -> dict[str, Notice]:
        """What was taken in."""
        self._now()
        return {one.key: one for one in decode_notices(self._notices.values())}

    async def settle(
        self,
        taken: int,
        notices: Mapping[str, Notice | None],
        acts: Sequence[Act],
        events: Sequence[Event],
        *,
        lease: Lease | None = None,
    ) -> None:
        """Carry out everything."""
        await self.write_acts(ALERTS, acts, events, lease=lease)
        self._inbox = self._inbox[taken:]
        self._notices |= {key: encode_notice(one) for key, one in notices.items() if one is not None}
        self._notices[KEPT_MARK] = b""
        for key in [key for key, one in notices.items() if one is None]:
            self._notices.pop(key, None)

    async def targets(self, clusters: Sequence[str]) -> dict[str, Course]:
        """What was written, without what has begun to hold."""
        self._now()
        kept = ((one, self._targets[one]) for one in clusters if one in self._targets)
        return {one: Course(target=course.target, automatic=course.automatic) for one, course in kept}

    async def write_targets(
        self, courses: Mapping[str, Course], events: Sequence[Event], *, lease: Lease | None = None
    ) -> None:
        """Keep the targets and the events."""
        self._fence(lease)
        self._targets.update(courses)
        self._log(events)

    async def tell_mix(self, instance: str, mix: Mix, *, ttl_ms: int) -> None:
        """Keep it until `ttl_ms` has passed."""
        self._mixes[instance] = (schema.to_json(mix), self._now() + ttl_ms)

    async def mixes(self) -> list[Mix]:
        """What each instance told that has not expired."""
        now = self._now()
        decoded = (schema.decode_mix(raw) for raw, expires in self._mixes.values() if expires > now)
        return [mix for mix in decoded if mix is not None]

    async def tell_outcomes(self, instance: str, report: Report, *, ttl_ms: int) -> None:
        """Keep the report until `ttl_ms` has passed."""
        self._outcomes[instance] = (encode_report(report), self._now() + ttl_ms)

    async def outcomes(
        self, clusters: Sequence[str], models: Sequence[str] = (), versions: Sequence[str] = ()
    ) -> list[Report]:
        """What each instance told that has not expired."""
        now, asked = self._now(), (clusters, models, versions)
        told = [hash_ for hash_, expires in self._outcomes.values() if expires > now]
        fields = outcome_fields(*asked)
        return [decode_report(*asked, [one.get(name) for name in fields]) for one in told] if fields else []

    async def rollouts(self, models: Sequence[str]) -> tuple[dict[str, dict[str, str]], dict[str, str]]:
        """Those that are there, and the hash that lists them."""
        self._now()
        return self._named(models, rollouts.rollout_key), dict(self._hashes.get(rollouts.ROLLOUTS, {}))

    async def note_split(self, model: str, line: SplitLine, *, lease: Lease | None = None) -> None:
        """Keep the line."""
        self._fence(lease)
        self._split_lines.setdefault(model, deque(maxlen=rollouts.HISTORY_KEPT)).append(line)

    async def split_history(self, model: str, count: int) -> list[SplitLine]:
        """The newest `count` lines, oldest first."""
        self._now()
        return list(self._split_lines.get(model, ()))[-count:] if count > 0 else []

    async def nudge(self) -> None:
        """Hand a word to every reader."""
        self._now()
        for reader in self._nudged:
            reader.put_nowait(True)

    async def nudges(self) -> AsyncIterator[None]:
        """Words from the moment of the first `anext`. Raises StoreUnavailable after `close()`."""
        self._now()
        reader: asyncio.Queue[bool] = asyncio.Queue()
        self._nudged.add(reader)
        try:
            while await reader.get():
                yield
        finally:
            self._nudged.discard(reader)
        raise StoreUnavailable("the store is closed")

    async def share(self, batch: PickBatch) -> None:
        """Hand the batch to every reader; one that is full misses it."""
        self._now()
        for reader in self._pickers:
            if reader.qsize() < TICKS_KEPT:
                reader.put_nowait(batch)

    async def shared(self) -> AsyncIterator[PickBatch]:
        """Batches from the moment of the first `anext`. Raises StoreUnavailable after `close()`."""
        self._now()
        reader: asyncio.Queue[PickBatch | None] = asyncio.Queue()
        self._pickers.add(reader)
        try:
            while (batch := await reader.get()) is not None:
                yield batch
        finally:
            self._pickers.discard(reader)
        raise StoreUnavailable("the store is closed")

    async def beat(self, service: str, instance: str, info: Mapping[str, Any], *, ttl_ms: int) -> None:
        """Keep the info, with `beat_at_ms`, until `ttl_ms` has passed."""
        now = self._now()
        self._beats[service, instance] = (schema.to_json({**info, "beat_at_ms": now}), now + ttl_ms)

    async def leave(self, service: str, instance: str) -> None:
        """Remove the beat."""
        self._now()
        self._beats.pop((service, instance), None)

    async def present(self) -> dict[str, dict[str, dict[str, Any]]]:
        """service → instance → info, of every beat that has not expired."""
        now = self._now()
        alive = {place: said for place, (said, expires) in self._beats.items() if expires > now}
        return schema.group_presence(list(alive), alive.values())

    async def time_ms(self) -> float:
        """What `clock_ms` says."""
        return float(self._now())

    async def ping(self) -> None:
        """Return while the store is available."""
        self._now()

    async def close(self) -> None:
        """End every reader; every later call raises StoreUnavailable."""
        self.available = False
        for reader in self._readers:
            reader.put_nowait(None)
        for nudged in self._nudged:
            nudged.put_nowait(False)
        for picker in self._pickers:
            picker.put_nowait(None)

    def _now(self) -> int:
        if not self.available:
            raise StoreUnavailable("the store is not available")
        return self._clock_ms()
