"""The part of the store on Redis that duties of the leader live by, and what other services tell them.

Acts and notices, replica targets, mixes, outcomes, rollouts and the history of splits; `redis` has the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tidegate.domain.actions.act import Act
from tidegate.domain.actions.effects import Effects, summed
from tidegate.domain.actions.notice import Notice
from tidegate.domain.lease import Lease
from tidegate.domain.outcomes.report import Report
from tidegate.domain.scaling.rule import Course
from tidegate.store import commands, rollouts, schema
from tidegate.store.acts import ALERTS, KEPT_MARK, decode_acts, decode_notices, encode_acts, encode_notice
from tidegate.store.commands import Command
from tidegate.store.fields import text, texts
from tidegate.store.outcomes import decode_report, encode_report
from tidegate.store.outcomes import fields as outcome_fields
from tidegate.store.ports import Delivered, Event, Mix
from tidegate.store.redis_connection import RedisConnection, hash_of, raise_wrong_type
from tidegate.store.rollouts import SplitLine
from tidegate.store.targets import decode_course, encode_course


class RedisDuties(RedisConnection):
    """Methods of RedisStore. `clock_ms` is Unix milliseconds of this machine."""

    def __init__(
        self,
        url: str,
        keys: schema.Keys,
        clock_ms: Callable[[], int],
        *,
        timeout_seconds: float,
        quiet_seconds: float,
    ) -> None:
        self._keys, self._clock_ms = keys, clock_ms
        super().__init__(url, keys.leader, timeout_seconds=timeout_seconds, quiet_seconds=quiet_seconds)

    async def acts(self, source: str | None = None) -> list[Act]:
        """The acts of one source, or of all."""
        [reply] = await self._hashes([self._keys.acts])
        return decode_acts(raw for name, raw in hash_of(reply).items() if source in {None, text(name)})

    async def effects(self) -> Effects:
        """What they add up to."""
        return summed(await self.acts())

    async def write_acts(
        self, source: str, acts: Sequence[Act], events: Sequence[Event], *, lease: Lease | None = None
    ) -> None:
        """One field a source; one MULTI."""
        written = [self._acts_of(source, acts), *(commands.append_event(self._keys, event) for event in events)]
        await self._write(written, lease)

    def _acts_of(self, source: str, acts: Sequence[Act]) -> Command:
        return ("HSET", self._keys.acts, source, encode_acts(acts)) if acts else ("HDEL", self._keys.acts, source)

    async def deliver(self, notices: Sequence[Notice], *, most: int) -> bool:
        """RPUSH on `inbox`, whose length is looked at before: a few more may wait where several instances put some."""
        if not notices:
            return True
        [waiting] = await self._read([("LLEN", self._keys.inbox)])
        raise_wrong_type(waiting, self._keys.inbox)
        if waiting + len(notices) > most:
            return False
        await self._write([("RPUSH", self._keys.inbox, *map(encode_notice, notices))])
        return True

    async def delivered(self, count: int) -> Delivered:
        """LRANGE, HEXISTS and TIME in one round trip."""
        asked: list[Command] = [
            ("LRANGE", self._keys.inbox, 0, count - 1),
            ("HEXISTS", self._keys.notices, KEPT_MARK),
            ("TIME",),
        ]
        entries, kept, (seconds, microseconds) = await self._read(asked)
        raise_wrong_type(entries, self._keys.inbox)
        raise_wrong_type(kept, self._keys.notices)
        now_ms = int(seconds) * 1000 + int(microseconds) // 1000
        return Delivered(decode_notices(entries), len(entries), bool(kept), now_ms)

    async def notices(self) -> dict[str, Notice]:
        """The hash `notices`."""
        [reply] = await self._hashes([self._keys.notices])
        return {one.key: one for one in decode_notices(hash_of(reply).values())}

    async def settle(
        self,
        taken: int,
        notices: Mapping[str, Notice | None],
        acts: Sequence[Act],
        events: Sequence[Event],
        *,
        lease: Lease | None = None,
    ) -> None:
        """One MULTI."""
        kept = [part for key, one in notices.items() if one is not None for part in (key, encode_notice(one))]
        forgotten = [key for key, one in notices.items() if one is None]
        written: list[Command] = [
            ("HSET", self._keys.notices, KEPT_MARK, b"", *kept),
            self._acts_of(ALERTS, acts),
            *(commands.append_event(self._keys, event) for event in events),
        ]
        written += [("HDEL", self._keys.notices, *forgotten)] if forgotten else []
        written += [("LTRIM", self._keys.inbox, taken, -1)] if taken else []
        await self._write(written, lease)

    async def targets(self, clusters: Sequence[str]) -> dict[str, Course]:
        """The hashes `scale:{cluster}`."""
        replies = await self._hashes([self._keys.scale(one) for one in clusters])
        decoded = ((one, decode_course(hash_of(reply))) for one, reply in zip(clusters, replies, strict=True))
        return {one: course for one, course in decoded if course is not None}

    async def write_targets(
        self, courses: Mapping[str, Course], events: Sequence[Event], *, lease: Lease | None = None
    ) -> None:
        """One MULTI."""
        written: list[Command] = []
        for cluster, course in courses.items():
            written += commands.replace(self._keys.scale(cluster), encode_course(course))
        await self._write([*written, *(commands.append_event(self._keys, event) for event in events)], lease)

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
        raise_wrong_type(listed, self._keys.mixes)
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

    async def outcomes(
        self, clusters: Sequence[str], models: Sequence[str] = (), versions: Sequence[str] = ()
    ) -> list[Report]:
        """HMGET on the hash of each instance of the index."""
        fields = outcome_fields(clusters, models, versions)
        [listed] = await self._read([("ZRANGE", self._keys.outcomes, 0, -1)])
        raise_wrong_type(listed, self._keys.outcomes)
        if not fields:
            return []
        told = await self._read([("HMGET", self._keys.told_outcomes(text(name)), *fields) for name in listed])
        return [decode_report(clusters, models, versions, values) for values in told if isinstance(values, list)]

    async def rollouts(self, models: Sequence[str]) -> tuple[dict[str, dict[str, str]], dict[str, str]]:
        """HGETALL of each; a key of another type reads as none."""
        names = [*map(rollouts.rollout_key, models), rollouts.ROLLOUTS]
        *found, listed = await self._hashes([self._keys.of(name) for name in names])
        named = zip(models, map(hash_of, found), strict=True)
        return {model: texts(reply) for model, reply in named if reply}, texts(hash_of(listed))

    async def note_split(self, model: str, line: SplitLine, *, lease: Lease | None = None) -> None:
        """XADD, which keeps about HISTORY_KEPT lines."""
        key = self._keys.of(rollouts.split_history_key(model))
        await self._write([("XADD", key, "MAXLEN", "~", rollouts.HISTORY_KEPT, "*", *line.fields())], lease)

    async def split_history(self, model: str, count: int) -> list[SplitLine]:
        """The newest `count` lines, oldest first."""
        if count <= 0:
            return []
        key = self._keys.of(rollouts.split_history_key(model))
        [entries] = await self._read([("XREVRANGE", key, "+", "-", "COUNT", count)])
        raise_wrong_type(entries, key)
        lines = (rollouts.decode_line(said) for _, said in reversed(entries) if said)
        return [line for line in lines if line is not None]
