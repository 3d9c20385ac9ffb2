"""Speaks to Redis, a Sentinel-watched master or a Redis Cluster: the only module that imports redis-py.

Commands in, replies out, within a time limit. What redis-py raises leaves as StoreUnavailable or StoreRefused.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any, Final

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
from tidegate.domain.lease import Lease
from tidegate.settings.redis_url import CLUSTER_SCHEME, SENTINEL_SCHEME, RedisUrl, parse_redis_url
from tidegate.store import commands
from tidegate.store.commands import Command
from tidegate.store.stats import StoreStats

FENCED_TRIES: Final = 3

_REDIS_FAULTS: Final = (RedisError, RedisClusterException, OSError)  # OSError: TimeoutError of asyncio is one


class RedisConnection:
    """What a store on Redis sends by. `leader_key` is the key that fenced writes compare their lease with; `stats` is
    how long what it sent took.

    Raises ConfigError when `url` is not a Redis URL.
    """

    def __init__(self, url: str, leader_key: str, *, timeout_seconds: float, quiet_seconds: float) -> None:
        try:
            self._url = parse_redis_url(url)
        except ValueError as exc:
            raise ConfigError([f"redis.url: {exc}"]) from exc
        self._leader_key = leader_key
        self._timeout, self._quiet = timeout_seconds, quiet_seconds
        self._client, self._sentinel = _client_of(self._url, timeout_seconds)
        self._atomic = self._url.scheme != CLUSTER_SCHEME
        self._subscriptions: set[Any] = set()
        self._fenced = asyncio.Lock()
        self._closed = False
        self.stats = StoreStats()

    async def close(self) -> None:
        """Release every connection; a running `ticks()` raises StoreUnavailable, as does every later call."""
        self._closed = True
        for pubsub in list(self._subscriptions):
            await pubsub.aclose()
        await self._client.aclose()
        if self._sentinel is not None:
            await self._sentinel.aclose()

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
            raise_wrong_type(reply, str(command[3] if command[0] == "EVAL" else command[1]))
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
        raise StoreUnavailable(f"the key {self._leader_key} in Redis changes all the time")

    async def _compared(self, commands: Sequence[Command], lease: Lease) -> list[Any] | None:
        """None where the key changed in between: it may have expired, or another process of ours extended it."""
        started = time.perf_counter()
        async with self._client.pipeline(transaction=True) as pipeline:
            await pipeline.watch(self._leader_key)
            if await _text_of(pipeline, self._leader_key) != lease.text.encode():
                raise NotLeading("another controller leads")
            pipeline.multi()
            for command in commands:
                pipeline.execute_command(*command)
            try:
                replies: list[Any] = await pipeline.execute(raise_on_error=False)
            except WatchError:
                return None
            self.stats.took("WATCH", time.perf_counter() - started)
            return replies

    async def _check_lead(self, lease: Lease) -> None:
        """What a Redis Cluster can do, whose transactions reach one server alone: compare, then write."""
        [held] = await self._read([("GET", self._leader_key)])
        if held != lease.text.encode():
            raise NotLeading("another controller leads")

    async def _send(self, commands: Sequence[Command], *, atomic: bool) -> list[Any]:
        self._refuse_when_closed()
        if not commands:
            return []
        pipeline = self._client.pipeline(transaction=atomic)
        for command in commands:
            pipeline.execute_command(*command)
        started = time.perf_counter()
        replies: list[Any] = await self._guard(pipeline.execute(raise_on_error=False))
        self.stats.took(str(commands[0][0]), time.perf_counter() - started)
        return self._raise_faults(replies)

    def _raise_faults(self, replies: list[Any]) -> list[Any]:
        for reply in replies:
            if isinstance(reply, Exception) and not _is_wrong_type(reply):
                raise self._fault(reply) from reply
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
        started, pool = time.perf_counter(), self._client.connection_pool
        connection = await pool.get_connection()
        try:
            await connection.send_packed_command(commands.packed(sent))
            replies = [await _reply_of(connection) for _ in sent]
        except BaseException:
            await connection.disconnect(nowait=True)
            raise
        finally:
            await pool.release(connection)
        self.stats.took(str(sent[0][0]), time.perf_counter() - started)
        return replies

    def _check(self, written: Sequence[Command], replies: Sequence[Any]) -> None:
        """Raise the first error among the replies."""
        for command, reply in zip(written, replies, strict=True):
            if isinstance(reply, Exception) and not _is_wrong_type(reply):
                raise self._fault(reply) from reply
            raise_wrong_type(reply, str(command[1]))

    async def _guard(self, awaitable: Any, *, extra_seconds: float = 0.0) -> Any:
        """Await within the time limit; what redis-py raises leaves as a StoreError."""
        try:
            async with asyncio.timeout(self._timeout + extra_seconds):
                return await awaitable
        except _REDIS_FAULTS as exc:
            raise self._fault(exc) from exc

    def _refuse_when_closed(self) -> None:
        if self._closed:
            raise StoreUnavailable("the store is closed")

    def _fault(self, exc: Exception) -> StoreError:
        """`_store_error`, counted."""
        error = self._store_error(exc)
        self.stats.failed(error)
        return error

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


def _client_of(url: RedisUrl, timeout_seconds: float) -> tuple[Any, Any]:
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


async def _text_of(pipeline: Any, key: str) -> bytes | None:
    """The text at a key; None where there is none, or something else."""
    try:
        held: bytes | None = await pipeline.execute_command("GET", key)
    except ResponseError as exc:
        if _is_wrong_type(exc):
            return None
        raise
    return held


def _is_wrong_type(reply: Any) -> bool:
    return isinstance(reply, ResponseError) and "WRONGTYPE" in str(reply)


def raise_wrong_type(reply: Any, key: str) -> None:
    if isinstance(reply, Exception):
        raise StoreRefused(f"{key} in Redis is of another type than Tidegate's; remove it with DEL {key}") from reply


def hash_of(reply: Any) -> Mapping[bytes, bytes]:
    """A hash; a key of another type reads as empty."""
    return {} if isinstance(reply, Exception) else reply


def _plain(said: str) -> str:
    """The first line of a library's message, without the number that redis-py puts before it."""
    return said.strip().partition("\n")[0] or "no reason given"
