"""The store on Redis 6.2 and later: the only module that imports redis-py.

Every public method has a time limit for each pipeline it sends, and raises StoreUnavailable or StoreRefused,
nothing else. `schema` draws the keys.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from typing import Any

import redis.asyncio as aioredis
from redis.asyncio.cluster import ClusterNode, RedisCluster
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import Sentinel
from redis.backoff import NoBackoff
from redis.exceptions import (
    AuthenticationError,
    AuthorizationError,
    NoPermissionError,
    RedisClusterException,
    RedisError,
    ResponseError,
    WatchError,
)

from tidegate.domain.errors import ConfigError, NotLeading, StoreError, StoreRefused, StoreUnavailable
from tidegate.domain.lease import Lease, read_lease
from tidegate.domain.operators import FieldChange
from tidegate.domain.outcomes.report import Report
from tidegate.domain.sample import EndpointSample, NodeSample, NodeTick
from tidegate.settings.redis_url import CLUSTER_SCHEME, SENTINEL_SCHEME, RedisUrl, parse_redis_url
from tidegate.store import commands, schema
from tidegate.store.commands import Command
from tidegate.store.fields import text, texts
from tidegate.store.outcomes import cluster_field, decode_report, encode_report, model_field
from tidegate.store.picks import PickBatch, decode_picks, encode_picks
from tidegate.store.ports import ClusterDecision, Event, Mix, RawOperatorKeys

FENCED_TRIES = 3

_REDIS_FAULTS = (RedisError, RedisClusterException, OSError)  # OSError: TimeoutError of asyncio is one


def wall_clock_ms() -> int:
    """Unix time in milliseconds."""
    return time.time_ns() // 1_000_000


class RedisStore:
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
        try:
            self._url = parse_redis_url(url)
        except ValueError as exc:
            raise ConfigError([f"redis.url: {exc}"]) from exc
        self._keys = schema.Keys(prefix)
        self._timeout, self._quiet, self._clock_ms = timeout_seconds, quiet_seconds, clock_ms
        self._client, self._sentinel = _connect(self._url, timeout_seconds)
        self._atomic = self._url.scheme != CLUSTER_SCHEME
        self._subscriptions: set[Any] = set()
        self._fenced = asyncio.Lock()
        self._closed = False

    # --- agents ---------------------------------------------------------------------------------------------

    async def publish(self, tick: NodeTick, *, ttl_ms: int) -> None:
        """One MULTI, as `commands.publish` lists it."""
        written = commands.publish(self._keys, tick, ttl_ms)
        if self._atomic:
            self._refuse_when_closed()
            self._check(written, await self._guard(self._exchange([("MULTI",), *written, ("EXEC",)])))
        else:
            await self._write(written)

    async def samples(self) -> list[EndpointSample]:
        """Every endpoint of the index that still has a sample; a hash that is not a sample is left out."""
        found = [(cluster, address) for cluster, address, _ in await self.registered()]
        replies = await self._hashes([self._keys.endpoint(*one) for one in found])
        decoded = (schema.decode_endpoint(*one, _hash(reply)) for one, reply in zip(found, replies, strict=True))
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
            _raise_wrong_type(reply, name)
        index, left = schema.split_index(replies[0]), schema.split_index(replies[1])
        registered = [(*place, at) for place, at in index.items() if left.get(place, -1) < at]
        return registered, {place for place, at in left.items() if index.get(place, 0) <= at}

    async def nodes(self) -> list[NodeSample]:
        """Every node that still has a sample."""
        [listed] = await self._read([("ZRANGE", self._keys.nodes, 0, -1)])
        _raise_wrong_type(listed, self._keys.nodes)
        found = [text(raw) for raw in listed]
        replies = await self._hashes([self._keys.node(node) for node in found])
        decoded = (schema.decode_node(node, _hash(reply)) for node, reply in zip(found, replies, strict=True))
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

    async def _messages(self, channel: str) -> AsyncGenerator[bytes, None]:
        self._refuse_when_closed()
        pubsub = self._client.pubsub()
        self._subscriptions.add(pubsub)
        try:
            await self._guard(pubsub.subscribe(channel))
            while True:
                yield await self._next_message(pubsub)
        finally:
            self._subscriptions.discard(pubsub)
            await pubsub.aclose()

    async def _next_message(self, pubsub: Any) -> bytes:
        asked = False
        while True:
            self._refuse_when_closed()
            wait = self._timeout if asked else self._quiet
            got = await self._guard(pubsub.get_message(timeout=wait), extra_seconds=wait)
            if got is None and asked:
                raise StoreUnavailable(f"Redis at {self._url.where} went silent; check the server and the network")
            if got is None:
                await self._guard(pubsub.ping())
            elif got["type"] == "message":
                return bytes(got["data"])
            asked = got is None

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
        return RawOperatorKeys(**found, broken=broken, tuned=texts(_hash(tuned)))

    async def operator_key_names(self) -> list[str]:
        """By SCAN, a thousand keys a step, so that nobody is held up."""
        self._refuse_when_closed()
        found, begin = set[str](), self._keys.of("")
        listed = self._client.scan_iter(match=f"{begin}[wdts][erup][ainl]*:*", count=1000)
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
        return {one: schema.decode_weights(_hash(reply)) for one, reply in zip(clusters, replies, strict=True)}

    async def explain(self, clusters: Sequence[str]) -> dict[str, dict[str, dict[str, Any]]]:
        """Why each weight is what it is, by cluster and address."""
        replies = await self._hashes([self._keys.explain(one) for one in clusters])
        return {one: schema.decode_explain(_hash(reply)) for one, reply in zip(clusters, replies, strict=True)}

    async def rejected(self) -> dict[str, str]:
        """Operator key → why it was not accepted."""
        [reply] = await self._hashes([self._keys.rejected])
        return texts(_hash(reply))

    async def events(self, count: int) -> list[Event]:
        """The newest `count` events, oldest first."""
        if count <= 0:
            return []
        [entries] = await self._read([("XREVRANGE", self._keys.events, "+", "-", "COUNT", count)])
        _raise_wrong_type(entries, self._keys.events)
        return [schema.decode_event(said) for _, said in reversed(entries) if said]

    async def events_after(self, mark: str) -> tuple[list[Event], str]:
        """Entries after the identifier `mark`; "" is that of the newest entry."""
        if not mark:
            [entries] = await self._read([("XREVRANGE", self._keys.events, "+", "-", "COUNT", 1)])
            _raise_wrong_type(entries, self._keys.events)
            return [], text(entries[0][0]) if entries else "0-0"
        [entries] = await self._read([("XRANGE", self._keys.events, f"({mark}", "+")])
        _raise_wrong_type(entries, self._keys.events)
        return [schema.decode_event(said) for _, said in entries if said], text(entries[-1][0]) if entries else mark

    async def take_lead(self, instance: str, *, ttl_ms: int) -> Lease | None:
        """SET NX with the server's time in milliseconds as token."""
        lease = Lease(instance, int(await self.time_ms()))
        [taken] = await self._write([("SET", self._keys.leader, lease.text, "NX", "PX", ttl_ms)])
        return lease if taken else None

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
        _raise_wrong_type(held, self._keys.leader)
        return read_lease(text(held)) if held is not None else None

    async def tell_mix(self, instance: str, mix: Mix, *, ttl_ms: int) -> None:
        """SET with an end, and its place in the index."""
        now = self._clock_ms()
        await self._write(
            [
                ("SET", self._keys.mix(instance), schema.to_json(mix), "PX", ttl_ms),
                ("ZADD", self._keys.mixes, now, instance),
                ("ZREMRANGEBYSCORE", self._keys.mixes, "-inf", now - schema.INDEX_KEPT_MS),
            ]
        )

    async def mixes(self) -> list[Mix]:
        """What each instance of the index told that has not expired."""
        [listed] = await self._read([("ZRANGE", self._keys.mixes, 0, -1)])
        _raise_wrong_type(listed, self._keys.mixes)
        told = await self._read([("GET", self._keys.mix(text(instance))) for instance in listed])
        decoded = (schema.decode_mix(raw) for raw in told if isinstance(raw, bytes))
        return [mix for mix in decoded if mix is not None]

    async def tell_outcomes(self, instance: str, report: Report, *, ttl_ms: int) -> None:
        """The hash replaced, with an end, and its place in the index."""
        now = self._clock_ms()
        await self._write(
            [
                *commands.replace(self._keys.told_outcomes(instance), encode_report(report), ttl_ms),
                ("ZADD", self._keys.outcomes, now, instance),
                ("ZREMRANGEBYSCORE", self._keys.outcomes, "-inf", now - schema.INDEX_KEPT_MS),
            ]
        )

    async def outcomes(self, clusters: Sequence[str], models: Sequence[str] = ()) -> list[Report]:
        """HMGET on the hash of each instance of the index."""
        fields = [*map(cluster_field, clusters), *map(model_field, models)]
        [listed] = await self._read([("ZRANGE", self._keys.outcomes, 0, -1)])
        _raise_wrong_type(listed, self._keys.outcomes)
        if not fields:
            return []
        told = await self._read([("HMGET", self._keys.told_outcomes(text(name)), *fields) for name in listed])
        return [decode_report(clusters, models, values) for values in told if isinstance(values, list)]

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
        _raise_wrong_type(listed, self._keys.services)
        members = [pair for raw in listed if (pair := schema.split_member(raw)) is not None]
        beats = await self._read([("GET", self._keys.service(*pair)) for pair in members])
        return schema.group_presence(members, [None if isinstance(b, Exception) else b for b in beats])

    # --- the connection -------------------------------------------------------------------------------------

    async def time_ms(self) -> float:
        """Unix time of the Redis server in milliseconds."""
        [(seconds, microseconds)] = await self._read([("TIME",)])
        return int(seconds) * 1000 + int(microseconds) / 1000

    async def ping(self) -> None:
        """Return when Redis answers and takes writes: a replica, or a disk that is full, answers PING well enough."""
        await self._write([("SET", self._keys.of("probe"), 1, "PX", 1)])

    async def close(self) -> None:
        """Release every connection; a running `ticks()` raises StoreUnavailable, as does every later call."""
        self._closed = True
        for pubsub in list(self._subscriptions):
            await pubsub.aclose()
        await self._client.aclose()
        if self._sentinel is not None:
            await self._sentinel.aclose()

    async def _read(self, commands: Sequence[Command]) -> list[Any]:
        """Replies in order; one of WRONGTYPE is handed back as an exception, any other error is raised."""
        return await self._send(commands, atomic=False)

    async def _hashes(self, names: Sequence[str]) -> list[Any]:
        """The hashes of these names, in one round trip; one of another type is handed back as an exception."""
        asked: list[Command] = [("HGETALL", name) for name in names]
        if not self._atomic or not asked:
            return await self._read(asked)
        self._refuse_when_closed()
        replies = self._raise_faults(await self._guard(self._replies(asked)))
        return [dict(zip(flat[::2], flat[1::2], strict=True)) if isinstance(flat, list) else flat for flat in replies]

    async def _write(self, commands: Sequence[Command], lease: Lease | None = None) -> list[Any]:
        """Replies in order, all or nothing (not on a Redis Cluster); nothing unless the lease is in force."""
        if lease is None:
            replies = await self._send(commands, atomic=self._atomic)
        elif self._atomic:
            replies = await self._send_fenced(commands, lease)
        else:
            await self._check_lead(lease)
            replies = await self._send(commands, atomic=False)
        for command, reply in zip(commands, replies, strict=True):
            _raise_wrong_type(reply, str(command[3] if command[0] == "EVAL" else command[1]))
        return replies

    async def _send_fenced(self, commands: Sequence[Command], lease: Lease) -> list[Any]:
        """A MULTI that Redis refuses where the key `leader` changes, or expires, after it was compared."""
        self._refuse_when_closed()
        if not commands:
            return []
        async with self._fenced:  # or a long write and the extension of its own lease would wait for each other in turn
            for _ in range(FENCED_TRIES):
                replies = await self._guard(self._compared(commands, lease))
                if replies is not None:
                    return self._raise_faults(replies)
        raise StoreUnavailable(f"the key {self._keys.leader} in Redis changes all the time")

    async def _compared(self, commands: Sequence[Command], lease: Lease) -> list[Any] | None:
        """None where the key changed in between: it may have expired, or another process of ours extended it."""
        async with self._client.pipeline(transaction=True) as pipeline:
            await pipeline.watch(self._keys.leader)
            if await pipeline.execute_command("GET", self._keys.leader) != lease.text.encode():
                raise NotLeading("another controller leads")
            pipeline.multi()
            for command in commands:
                pipeline.execute_command(*command)
            try:
                replies: list[Any] = await pipeline.execute(raise_on_error=False)
            except WatchError:
                return None
            return replies

    async def _check_lead(self, lease: Lease) -> None:
        """What a Redis Cluster can do, whose transactions reach one server alone: compare, then write."""
        if await self.leader() != lease:
            raise NotLeading("another controller leads")

    async def _send(self, commands: Sequence[Command], *, atomic: bool) -> list[Any]:
        self._refuse_when_closed()
        if not commands:
            return []
        pipeline = self._client.pipeline(transaction=atomic)
        for command in commands:
            pipeline.execute_command(*command)
        replies: list[Any] = await self._guard(pipeline.execute(raise_on_error=False))
        return self._raise_faults(replies)

    def _raise_faults(self, replies: list[Any]) -> list[Any]:
        for reply in replies:
            if isinstance(reply, Exception) and not _is_wrong_type(reply):
                raise self._store_error(reply) from reply
        return replies

    async def _exchange(self, transaction: Sequence[Command]) -> list[Any]:
        """The replies of EXEC."""
        replies = await self._replies(transaction)
        if not isinstance(replies[-1], list):  # EXECABORT says less than the command that was not queued
            faults = (reply for reply in replies if isinstance(reply, Exception))
            raise next(faults, ResponseError("the transaction was not carried out"))
        return replies[-1]

    async def _replies(self, sent: Sequence[Command]) -> list[Any]:
        """One a command. Packed here: redis-py's pipeline takes four times as long, many times a second."""
        pool = self._client.connection_pool
        connection = await pool.get_connection()
        try:
            await connection.send_packed_command(commands.packed(sent))
            return [await _reply_of(connection) for _ in sent]
        except BaseException:
            await connection.disconnect(nowait=True)
            raise
        finally:
            await pool.release(connection)

    def _check(self, written: Sequence[Command], replies: Sequence[Any]) -> None:
        """Raise the first error among the replies."""
        for command, reply in zip(written, replies, strict=True):
            if isinstance(reply, Exception) and not _is_wrong_type(reply):
                raise self._store_error(reply) from reply
            _raise_wrong_type(reply, str(command[1]))

    async def _guard(self, awaitable: Any, *, extra_seconds: float = 0.0) -> Any:
        """Await within the time limit; what redis-py raises leaves as a StoreError."""
        try:
            async with asyncio.timeout(self._timeout + extra_seconds):
                return await awaitable
        except _REDIS_FAULTS as exc:
            raise self._store_error(exc) from exc

    def _refuse_when_closed(self) -> None:
        if self._closed:
            raise StoreUnavailable("the store is closed")

    def _store_error(self, exc: Exception) -> StoreError:  # noqa: PLR0911 - a line a case
        """The sentence for what redis-py raised. It names the address, never the password."""
        where, said = f"Redis at {self._url.where}", str(exc)
        if "without any password configured" in said:
            return StoreRefused(f"{where} has no password; take the password out of redis.url")
        if said.startswith("NOAUTH") or "Authentication required" in said:
            return StoreRefused(f"{where} needs a password; set redis.url to redis://:PASSWORD@{self._url.where}/0")
        if isinstance(exc, AuthenticationError | AuthorizationError) or said.startswith("WRONGPASS"):
            form = f"redis://:PASSWORD@{self._url.where}/0"
            return StoreRefused(f"{where} refuses the password; set redis.url to {form}")
        if isinstance(exc, NoPermissionError) or said.startswith(("NOPERM", "DENIED")):
            return StoreRefused(f"{where} refuses the command; allow it with ACL SETUSER ({_plain(said)})")
        if isinstance(exc, TimeoutError):
            return StoreUnavailable(f"{where} does not answer within {self._timeout:g} s")
        if isinstance(exc, ResponseError):
            return StoreUnavailable(f"{where} cannot do it: {_plain(said)}")
        return StoreUnavailable(f"{where} cannot be reached: {_plain(said)}")


def _connect(url: RedisUrl, timeout_seconds: float) -> tuple[Any, Any]:
    """The client, and the Sentinel client beside it where there is one. Nothing is sent yet."""
    options: dict[str, Any] = {
        "socket_connect_timeout": timeout_seconds,
        # _guard limits every call. redis-py would use asyncio.wait_for, which on Python 3.11 loses a cancellation
        # that arrives as the write completes: a task told to end would go on.
        "socket_timeout": None,
        "retry": Retry(NoBackoff(), 0),  # callers retry, with backoff and with newer data
        "protocol": 2,
    }
    login: dict[str, Any] = {"username": url.username, "password": url.password}
    if url.scheme == CLUSTER_SCHEME:
        nodes = [ClusterNode(host, port) for host, port in url.hosts]
        return RedisCluster(startup_nodes=nodes, **options, **login), None
    if url.scheme == SENTINEL_SCHEME:
        watchers = {**options, "password": url.sentinel_password}
        sentinel: Any = Sentinel(list(url.hosts), sentinel_kwargs=watchers, **options)  # type: ignore[no-untyped-call]
        return sentinel.master_for(url.service, db=url.db, **login), sentinel
    client = aioredis.Redis.from_url(url.text, **options)
    pool = client.connection_pool
    try:
        pool.connection_class(**pool.connection_kwargs)
    except (TypeError, ValueError) as exc:
        raise ConfigError([f"redis.url: an option of the URL is not known: {exc}"]) from exc
    return client, None


async def _reply_of(connection: Any) -> Any:
    """The next reply; an error that Redis answered with is one."""
    try:
        return await connection.read_response()
    except ResponseError as exc:
        return exc


def _is_wrong_type(reply: Any) -> bool:
    return isinstance(reply, ResponseError) and "WRONGTYPE" in str(reply)


def _raise_wrong_type(reply: Any, key: str) -> None:
    if isinstance(reply, Exception):
        raise StoreRefused(f"{key} in Redis is of another type than Tidegate's; remove it with DEL {key}") from reply


def _hash(reply: Any) -> Mapping[bytes, bytes]:
    """A hash; a key of another type reads as empty."""
    return {} if isinstance(reply, Exception) else reply


def _plain(said: str) -> str:
    """The first line of a library's message, without the number that redis-py puts before it."""
    return said.strip().partition("\n")[0] or "no reason given"
