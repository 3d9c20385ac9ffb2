"""The store on Redis 6.2 and later: which commands each method sends, and what their replies mean.

Every public method has a time limit for each pipeline it sends, and raises StoreUnavailable or StoreRefused,
nothing else. `schema` draws the keys, `redis_connection` speaks to the server, `redis_duties` has the part of the
leader's duties.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from typing import Any, Final

import structlog

from tidegate.domain.errors import NotLeading
from tidegate.domain.lease import Lease, read_lease
from tidegate.domain.operators import FieldChange
from tidegate.domain.sample import EndpointSample, NodeSample, NodeTick
from tidegate.store import commands, schema
from tidegate.store.commands import Command
from tidegate.store.fields import text, texts
from tidegate.store.picks import PickBatch, decode_picks, encode_picks
from tidegate.store.ports import ClusterDecision, Event, RawOperatorKeys
from tidegate.store.redis_connection import hash_of, raise_wrong_type
from tidegate.store.redis_duties import RedisDuties

NO_END: Final = -1  # PTTL's word for a key without expiry

log = structlog.get_logger("tidegate.store")


def wall_clock_ms() -> int:
    """Unix time in milliseconds."""
    return time.time_ns() // 1_000_000


class RedisStore(RedisDuties):
    """tidegate.store.ports.Store on a Redis server, a Sentinel-watched master or a Redis Cluster.

    `timeout_seconds` limits each round trip, connecting included; `quiet_seconds` is how long the channel may be
    silent before `ticks()` asks whether the connection still lives. On a Redis Cluster the keys of one
    call live on several servers, so that `write_decisions` and `publish` are not atomic there.

    Use it from one event loop. Raises ConfigError when `url` is not a Redis URL.
    """

    def __init__(
        self,
        url: str,
        prefix: str = "tidegate",
        *,
        timeout_seconds: float = 1.0,
        quiet_seconds: float = 1.0,
        clock_ms: Callable[[], int] = wall_clock_ms,
    ) -> None:
        super().__init__(
            url, schema.Keys(prefix), clock_ms, timeout_seconds=timeout_seconds, quiet_seconds=quiet_seconds
        )

    # --- agents ---------------------------------------------------------------------------------------------

    async def publish(self, tick: NodeTick, *, ttl_ms: int) -> None:
        """One MULTI, as `commands.publish` lists it."""
        written = commands.publish(self._keys, tick, ttl_ms)
        if self._atomic:
            self._refuse_when_closed()
            self._check(written, await self._guard(self._exchange([("MULTI",), *written, ("EXEC",)])))
        else:
            await self._write(written)

    async def samples(self, clusters: Collection[str] | None = None) -> list[EndpointSample]:
        """Every endpoint of the index that still has a sample; a hash that is not a sample is left out."""
        index = await self.registered()
        found = [(cluster, address) for cluster, address, _ in index if clusters is None or cluster in clusters]
        replies = await self._hashes([self._keys.endpoint(*one) for one in found])
        decoded = (schema.decode_endpoint(*one, hash_of(reply)) for one, reply in zip(found, replies, strict=True))
        return [sample for sample in decoded if sample is not None]

    async def registered(self) -> list[tuple[str, str, int]]:
        """(cluster, address, sampled_at_ms) of the index, oldest first, also of expired samples."""
        return (await self.roll())[0]

    async def departed(self) -> set[tuple[str, str]]:
        """(cluster, address) that left after their last sample, within the last hour."""
        return (await self.roll())[1]

    async def roll(self) -> tuple[list[tuple[str, str, int]], set[tuple[str, str]]]:
        """Who is registered, by when, and who departed; an agent that lags may have written both."""
        names = (self._keys.endpoints, self._keys.gone)
        replies = await self._read([("ZRANGE", name, 0, -1, "WITHSCORES") for name in names])
        for name, reply in zip(names, replies, strict=True):
            raise_wrong_type(reply, name)
        index, left = schema.split_index(replies[0]), schema.split_index(replies[1])
        registered = [(*place, at) for place, at in index.items() if left.get(place, -1) < at]
        return registered, {place for place, at in left.items() if index.get(place, 0) <= at}

    async def nodes(self) -> list[NodeSample]:
        """Every node that still has a sample."""
        [listed] = await self._read([("ZRANGE", self._keys.nodes, 0, -1)])
        raise_wrong_type(listed, self._keys.nodes)
        found = [text(raw) for raw in listed]
        replies = await self._hashes([self._keys.node(node) for node in found])
        decoded = (schema.decode_node(node, hash_of(reply)) for node, reply in zip(found, replies, strict=True))
        return [node for node in decoded if node is not None]

    async def ticks(self) -> AsyncIterator[NodeTick]:
        """Messages of `samples` from the moment of the first `anext`; garbage is skipped.

        Raises StoreUnavailable when the connection ends, when it leaves a PING unanswered, and after `close()`.
        Messages sent until the next subscription are lost; the hashes hold the newest state.
        """
        async with contextlib.aclosing(self._messages(self._keys.samples)) as messages:
            async for message in messages:
                tick = schema.decode_tick(message)
                if tick is not None:
                    yield tick

    # --- operators ------------------------------------------------------------------------------------------

    async def operator_keys(self, clusters: Sequence[str], models: Sequence[str]) -> RawOperatorKeys:
        """Weights, drains, tunes and splits that are there; `broken` says which keys are no hash."""
        named = (
            [("weights", one, schema.weight_key(one)) for one in clusters]
            + [("drains", one, schema.drain_key(one)) for one in clusters]
            + [("tunes", one, schema.tune_key(one)) for one in ("", *clusters)]
            + [("splits", one, schema.split_key(one)) for one in models]
        )
        *replies, tuned = await self._hashes([*(self._keys.of(key) for _, _, key in named), self._keys.tuned])
        found: dict[str, dict[str, dict[str, str]]] = {kind: {} for kind, _, _ in named}
        broken: dict[str, str] = {}
        for (kind, name, key), reply in zip(named, replies, strict=True):
            if isinstance(reply, Exception):
                broken[key] = f"is not a hash; remove it with DEL {self._keys.of(key)}"
            elif reply:
                found[kind][name] = texts(reply)
        return RawOperatorKeys(**found, broken=broken, tuned=texts(hash_of(tuned)))

    async def operator_key_names(self) -> list[str]:
        """By SCAN, a thousand keys a step, so that nobody is held up."""
        self._refuse_when_closed()
        found, begin = set[str](), self._keys.of("")
        listed = self._client.scan_iter(match=f"{begin}[wdtsr][erupo][ainl]*:*", count=1000)
        while (raw := await self._guard(anext(listed, None))) is not None:
            found.add(text(raw).removeprefix(begin))
        return [name for name in found if name.startswith(schema.OPERATOR_KINDS)]

    async def set_field(self, key: str, field: str, value: str) -> None:
        """HSET on `{prefix}:{key}`. Raises StoreRefused when the key holds something that is no hash."""
        await self._write([("HSET", self._keys.of(key), field, value)])

    async def clear_field(self, key: str, field: str) -> bool:
        """HDEL on `{prefix}:{key}`; True when the field was there."""
        [removed] = await self._write([("HDEL", self._keys.of(key), field)])
        return bool(removed)

    async def change_fields(
        self, changes: Sequence[FieldChange], events: Sequence[Event], *, lease: Lease | None = None
    ) -> list[bool]:
        """One MULTI. What depends on the text that is there is a script, so that nobody writes in between."""
        written = [commands.change(self._keys.of(change.key), change) for change in changes]
        written += [commands.append_event(self._keys, event) for event in events]
        replies = await self._write(written, lease)
        return [
            bool(reply) or (change.only_if is None and change.value is not None)
            for change, reply in zip(changes, replies, strict=False)
        ]

    # --- decisions ------------------------------------------------------------------------------------------

    async def write_decisions(
        self,
        decisions: Sequence[ClusterDecision],
        rejected: Mapping[str, str],
        events: Sequence[Event],
        *,
        lease: Lease | None = None,
    ) -> None:
        """One MULTI. Clusters that are not given keep what they have; `rejected` is replaced as a whole."""
        written: list[Command] = []
        for decision in decisions:
            written += commands.replace(self._keys.effective(decision.cluster), decision.effective)
            if decision.explain is not None:
                explain = {address: schema.to_json(why) for address, why in decision.explain.items()}
                written += commands.replace(self._keys.explain(decision.cluster), explain)
        written += commands.replace(self._keys.rejected, rejected)
        written += [commands.append_event(self._keys, event) for event in events]
        await self._write(written, lease)

    async def restore(
        self, keys: RawOperatorKeys, heard_ms: Mapping[tuple[str, str], int], *, lease: Lease | None = None
    ) -> None:
        """HSETNX of each field, ZADD NX of each place: what was written meanwhile stays."""
        written: list[Command] = [
            ("HSETNX", self._keys.of(key), name, value)
            for key, fields in {**schema.operator_hashes(keys), schema.TUNED: keys.tuned}.items()
            for name, value in fields.items()
        ]
        index = [part for place, at in heard_ms.items() for part in (at, schema.member(*place))]
        if index:
            written.append(("ZADD", self._keys.endpoints, "NX", *index))
        await self._write(written, lease)

    async def effective(self, clusters: Sequence[str]) -> dict[str, dict[str, int]]:
        """The published weights by cluster and address."""
        replies = await self._hashes([self._keys.effective(one) for one in clusters])
        return {one: schema.decode_weights(hash_of(reply)) for one, reply in zip(clusters, replies, strict=True)}

    async def explain(self, clusters: Sequence[str]) -> dict[str, dict[str, dict[str, Any]]]:
        """Why each weight is what it is, by cluster and address."""
        replies = await self._hashes([self._keys.explain(one) for one in clusters])
        return {one: schema.decode_explain(hash_of(reply)) for one, reply in zip(clusters, replies, strict=True)}

    async def rejected(self) -> dict[str, str]:
        """Operator key → why it was not accepted."""
        [reply] = await self._hashes([self._keys.rejected])
        return texts(hash_of(reply))

    async def events(self, count: int) -> list[Event]:
        """The newest `count` events, oldest first."""
        if count <= 0:
            return []
        [entries] = await self._read([("XREVRANGE", self._keys.events, "+", "-", "COUNT", count)])
        raise_wrong_type(entries, self._keys.events)
        return [schema.decode_event(said) for _, said in reversed(entries) if said]

    async def events_after(self, mark: str) -> tuple[list[Event], str]:
        """Entries after the identifier `mark`; "" is that of the newest entry."""
        if not mark:
            [entries] = await self._read([("XREVRANGE", self._keys.events, "+", "-", "COUNT", 1)])
            raise_wrong_type(entries, self._keys.events)
            return [], text(entries[0][0]) if entries else "0-0"
        [entries] = await self._read([("XRANGE", self._keys.events, f"({mark}", "+")])
        raise_wrong_type(entries, self._keys.events)
        return [schema.decode_event(said) for _, said in entries if said], text(entries[-1][0]) if entries else mark

    async def take_lead(self, instance: str, *, ttl_ms: int) -> Lease | None:
        """SET NX with the server's time in milliseconds as token; what a hand wrote there gets an end."""
        lease = Lease(instance, int(await self.time_ms()))
        [taken] = await self._write([("SET", self._keys.leader, lease.text, "NX", "PX", ttl_ms)])
        if taken:
            return lease
        await self._end_lead(ttl_ms)
        return None

    async def _end_lead(self, ttl_ms: int) -> None:
        """PEXPIRE on a key `leader` that has no end, or one further away than any lease's: else nobody ever led."""
        [left] = await self._read([("PTTL", self._keys.leader)])
        if left == NO_END or left > ttl_ms:
            log.warning("no controller wrote this key; it ends when a lease would", key=self._keys.leader, ms=ttl_ms)
            await self._write([("PEXPIRE", self._keys.leader, ttl_ms)])

    async def keep_lead(self, lease: Lease, *, ttl_ms: int) -> None:
        """PEXPIRE under the lease."""
        await self._write([("PEXPIRE", self._keys.leader, ttl_ms)], lease)

    async def resign(self, lease: Lease) -> None:
        """DEL under the lease."""
        with contextlib.suppress(NotLeading):
            await self._write([("DEL", self._keys.leader)], lease)

    async def leader(self) -> Lease | None:
        """What the key `leader` holds."""
        [held] = await self._read([("GET", self._keys.leader)])
        raise_wrong_type(held, self._keys.leader)
        return read_lease(text(held)) if held is not None else None

    async def nudge(self) -> None:
        """PUBLISH on `decided`."""
        await self._write([("PUBLISH", self._keys.decided, b"")])

    async def nudges(self) -> AsyncIterator[None]:
        """One item a message of `decided`. Raises StoreUnavailable as `ticks` does."""
        async with contextlib.aclosing(self._messages(self._keys.decided)) as messages:
            async for _ in messages:
                yield

    async def share(self, batch: PickBatch) -> None:
        """PUBLISH on `picks`."""
        sent: list[Command] = [("PUBLISH", self._keys.picks, encode_picks(batch))]
        if self._atomic:
            self._refuse_when_closed()
            self._raise_faults(await self._guard(self._replies(sent)))
        else:
            await self._read(sent)

    async def shared(self) -> AsyncIterator[PickBatch]:
        """Messages of `picks`; garbage is skipped. Raises StoreUnavailable as `ticks` does."""
        async with contextlib.aclosing(self._messages(self._keys.picks)) as messages:
            async for message in messages:
                batch = decode_picks(message)
                if batch is not None:
                    yield batch

    # --- presence -------------------------------------------------------------------------------------------

    async def beat(self, service: str, instance: str, info: Mapping[str, Any], *, ttl_ms: int) -> None:
        """Write `service:…` for `ttl_ms`, with `beat_at_ms`, and its place in the index."""
        now = self._clock_ms()
        said = schema.to_json({**info, "beat_at_ms": now})
        await self._write(
            [
                ("SET", self._keys.service(service, instance), said, "PX", ttl_ms),
                ("ZADD", self._keys.services, now, schema.member(service, instance)),
                ("ZREMRANGEBYSCORE", self._keys.services, "-inf", now - schema.INDEX_KEPT_MS),
            ]
        )

    async def leave(self, service: str, instance: str) -> None:
        """Remove the beat and its place in the index."""
        await self._write(
            [
                ("DEL", self._keys.service(service, instance)),
                ("ZREM", self._keys.services, schema.member(service, instance)),
            ]
        )

    async def present(self) -> dict[str, dict[str, dict[str, Any]]]:
        """service → instance → info, of every beat that has not expired."""
        [listed] = await self._read([("ZRANGE", self._keys.services, 0, -1)])
        raise_wrong_type(listed, self._keys.services)
        members = [pair for raw in listed if (pair := schema.split_member(raw)) is not None]
        beats = await self._read([("GET", self._keys.service(*pair)) for pair in members])
        return schema.group_presence(members, [None if isinstance(b, Exception) else b for b in beats])

    # --- the server -----------------------------------------------------------------------------------------

    async def time_ms(self) -> float:
        """Unix time of the Redis server in milliseconds."""
        [(seconds, microseconds)] = await self._read([("TIME",)])
        return int(seconds) * 1000 + int(microseconds) / 1000

    async def ping(self) -> None:
        """Return when Redis answers and takes writes: a replica, or a disk that is full, answers PING well enough."""
        await self._write([("SET", self._keys.of("probe"), 1, "PX", 1)])
