"""Which replica of a cluster a request goes to: the books of all its replicas, and one pick from them."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from operator import add
from typing import Final

from tidegate.domain.pick.cost import cost
from tidegate.domain.pick.fit import demand_tokens, prefill_tokens
from tidegate.domain.pick.mirror import Mirror
from tidegate.domain.pick.prefix import PrefixIndex
from tidegate.domain.pick.queued import Entry
from tidegate.domain.pick.record import DispatchRecord
from tidegate.domain.pick.replica import Replica
from tidegate.domain.pick.settings import WEIGHTED_SUM, PickSettings
from tidegate.domain.pick.situation import Situation
from tidegate.domain.pick.stay import Stay
from tidegate.domain.pick.turns import Turns
from tidegate.domain.pick.verdict import Pick, Scored, Verdict
from tidegate.domain.pick.weighted_sum import weighted_sum
from tidegate.domain.pick.work import Work
from tidegate.domain.sample import EndpointSample

MOST_SESSIONS: Final = 100_000


class Handle:
    """One dispatch, for `ended` and `dispatch_record`. Opaque to callers."""

    __slots__ = ("entry", "kv_tokens", "prefill_tokens", "replica", "work")

    def __init__(self, replica: Replica | None, entry: Entry, work: Work) -> None:
        self.replica, self.entry, self.work = replica, entry, work
        self.prefill_tokens, self.kv_tokens = entry.tokens, entry.kv_tokens


class ClusterPicker:
    """The books of one cluster. Synchronous and not safe across threads; times are Unix milliseconds.

    Nothing here reads a clock: every call that needs the time is told it. `pick` changes nothing but whose turn it is.
    """

    def __init__(self, settings: PickSettings, *, sample_ttl_ms: int) -> None:
        self._settings = settings
        self._ttl_ms = sample_ttl_ms
        self._replicas: dict[str, Replica] = {}
        self._slots: list[Replica | None] = []
        self._index = PrefixIndex()
        self._turns = Turns()
        self._mirror = Mirror()
        self._stay = Stay()
        self._sessions: dict[str, str] = {}

    @property
    def settings(self) -> PickSettings:
        """Those in force."""
        return self._settings

    def tune(self, settings: PickSettings) -> None:
        """From the next pick on these hold; books stay."""
        self._settings = settings

    def shares_with(self, others: int) -> None:
        """So many other processes pick for the same cluster, and tell by `sent_elsewhere` what they did."""
        self._mirror.others = others

    def joined(self, address: str, destination: str | None, priority: int = 0) -> None:
        """A replica, or what changed about it: the `ip:port` that Envoy knows it by, None while its name is unresolved.

        Lower priorities are preferred.
        """
        replica = self._replicas.get(address) or self._enter(address)
        replica.destination, replica.priority = destination, priority
        replica.look()

    def left(self, address: str) -> None:
        """The replica is gone, and what was sent there is forgotten."""
        replica = self._replicas.pop(address, None)
        if replica is not None:
            self._index.drop(replica.slot)
            self._slots[replica.slot] = None

    def weighed(self, address: str, weight: int | None) -> None:
        """The controller's weight, 0…1000; 0 means no new traffic, None that nobody decided."""
        if (replica := self._replicas.get(address)) is not None:
            replica.weight = weight
            replica.look()

    def sampled(self, sample: EndpointSample, now_ms: float) -> None:
        """A sample of a replica that joined. One older than a known fresh one is late and dropped."""
        replica = self._replicas.get(sample.address)
        if replica is None:
            return
        last = replica.sample
        if last is not None and sample.sampled_at_ms < last.sampled_at_ms and last.is_fresh(int(now_ms), self._ttl_ms):
            return
        windows = replica.speed.windows
        if replica.sampled(sample, now_ms, self._settings, self._ttl_ms):
            self._index.clear(replica.slot)
        if replica.speed.windows != windows:
            self._level_speeds()
        self._index.resize(replica.slot, replica.capacity or self._settings.kv_tokens)
        for name in sample.loras:
            replica.adapters[name] = None

    def pick(
        self,
        work: Work,
        now_ms: float,
        *,
        hold_seconds: float | None = None,
        among: Collection[str] | None = None,
    ) -> Pick:
        """Up to two replicas for the request, best first, or why there are none.

        `hold_seconds` (None: the setting) answers FULL also where every replica that fits would make it wait longer.
        `among` are addresses: while any of those serves, no other is chosen.
        """
        self._mirror.expire(now_ms)
        usable = self._usable(now_ms)
        if among is not None:
            usable = [replica for replica in usable if replica.address in among] or usable
        if not usable:
            closed = all(replica.closed(now_ms) for replica in self._replicas.values())
            return Pick(Verdict.CLOSED if closed else Verdict.UNKNOWN)
        fitting, rooms = self._fitting(usable, work)
        if not fitting:
            return Pick(Verdict.FULL)
        situation = self._situation(work, fitting, rooms, now_ms)
        hold = self._settings.hold_seconds if hold_seconds is None else hold_seconds
        if 0 < hold < min(situation.waits):
            return Pick(Verdict.FULL)
        return Pick(Verdict.CHOSEN, self._best_two(situation))

    def sent(self, address: str, work: Work, now_ms: float) -> Handle:
        """The request goes to `address`: it counts there until the engine has, or until `ended`."""
        replica = self._replicas.get(address)
        if replica is None:
            return Handle(None, Entry(now_ms, 0.0, work.sequences, 0), work)
        cached = self._index.cached_at(replica.slot, work.marks, work.ends)
        tokens = prefill_tokens(work, cached, self._settings)
        entry = Entry(now_ms, tokens, work.sequences, max(0, work.kv_tokens - cached))
        handle = Handle(replica, entry, work)
        self._count(replica, entry, work.marks, work.ends, now_ms)
        self._mirror.add(replica.queued, entry.tokens, now_ms)
        if work.adapter is not None:
            replica.adapters[work.adapter] = None
        if work.session is not None and self._settings.session_seconds:
            self._remember(work.session, address)
        return handle

    def ended(self, handle: Handle, now_ms: float) -> None:
        """The dispatch ended, failed or never arrived. Calling it again, or after the replica left, does nothing."""
        entry, replica = handle.entry, handle.replica
        if replica is None or entry.ended_ms is not None:
            return
        if not entry.queued:
            self._stay.ended(now_ms - entry.at_ms)
        replica.queued.ended(entry, now_ms)
        replica.reserve()

    def dispatch_record(self, handle: Handle) -> DispatchRecord | None:
        """What another process has to know of the dispatch; None when its replica was unknown."""
        if handle.replica is None:
            return None
        return DispatchRecord(
            handle.replica.address,
            handle.entry.at_ms,
            handle.prefill_tokens,
            handle.kv_tokens,
            handle.work.sequences,
            handle.work.marks,
            handle.work.ends,
        )

    def sent_elsewhere(self, record: DispatchRecord, now_ms: float) -> None:
        """Another process dispatched: count it as one of ours."""
        replica = self._replicas.get(record.address)
        if replica is not None:
            entry = Entry(record.at_ms, record.prefill_tokens, record.prompts, record.kv_tokens)
            self._count(replica, entry, record.marks, record.ends, now_ms)

    def _count(self, replica: Replica, entry: Entry, marks: Sequence[int], ends: Sequence[int], now_ms: float) -> None:
        replica.queued.add(entry, now_ms)
        replica.free_kv -= entry.kv_tokens
        self._index.put(replica.slot, marks, ends)

    def _enter(self, address: str) -> Replica:
        slot = self._slots.index(None) if None in self._slots else len(self._slots)
        replica = self._replicas[address] = Replica(address, slot, self._settings)
        if slot == len(self._slots):
            self._slots.append(replica)
        else:
            self._slots[slot] = replica
        self._index.add(slot, self._settings.kv_tokens)
        return replica

    def _level_speeds(self) -> None:
        """The fleet's factor: the median of what its replicas taught."""
        taught = sorted(r.speed.factor for r in self._replicas.values() if r.speed.windows)
        for replica in self._replicas.values():
            replica.speed.fleet = taught[len(taught) // 2]

    def _usable(self, now_ms: float) -> list[Replica]:
        """Open and fresh; those that show no progress only where there are no others."""
        usable = [r for r in self._replicas.values() if r.open and r.fresh_until_ms >= now_ms]
        sound = [r for r in usable if r.doubtful_from_ms >= now_ms]
        return sound or usable

    def _fitting(self, usable: list[Replica], work: Work) -> tuple[list[Replica], list[float] | None]:
        """Those with room, now or soon, of the lowest priority that has any, and seconds until there is room."""
        demand = demand_tokens(work, max(r.block for r in usable))
        rooms = self._stay.rooms(usable, demand, self._settings)
        if rooms is None:
            fitting = usable
        else:
            most = self._settings.room_seconds
            pairs = [(r, room) for r, room in zip(usable, rooms, strict=True) if room <= most]
            fitting, rooms = [r for r, _ in pairs], [room for _, room in pairs]
        if len({r.priority for r in fitting}) > 1:
            first = min(r.priority for r in fitting)
            if rooms is not None:
                rooms = [room for r, room in zip(fitting, rooms, strict=True) if r.priority == first]
            fitting = [r for r in fitting if r.priority == first]
        return fitting, rooms

    def _situation(self, work: Work, replicas: list[Replica], rooms: list[float] | None, now_ms: float) -> Situation:
        settings = self._settings
        whole = prefill_tokens(work, 0, settings)
        waits = [max(0.0, r.queued.free_at_ms - now_ms) / 1000 for r in replicas]
        uncached = [whole] * len(replicas)
        cached = self._index.cached(work.marks, work.ends)
        if cached:
            by_slot = self._by_slot(cached, work, whole)
            uncached = [by_slot[r.slot] for r in replicas]
        return Situation(work, replicas, now_ms, settings, uncached, waits, rooms, self._sessions)

    def _by_slot(self, cached: list[tuple[int, int]], work: Work, whole: float) -> list[float]:
        tokens = [whole] * len(self._slots)
        for bits, held in cached:
            left, rest = prefill_tokens(work, held, self._settings), bits
            while rest:
                low = rest & -rest
                tokens[low.bit_length() - 1] = left
                rest ^= low
        return tokens

    def _best_two(self, situation: Situation) -> tuple[Scored, ...]:
        parts = weighted_sum(situation) if self._settings.policy == WEIGHTED_SUM else cost(situation)
        totals = [0.0] * len(situation.replicas)
        for seconds in parts.values():
            totals = list(map(add, totals, seconds))
        first = self._turns.least(totals, self._settings.equal_seconds)
        chosen = [first]
        if len(totals) > 1:
            total, totals[first] = totals[first], math.inf
            chosen.append(totals.index(min(totals)))
            totals[first] = total
        return tuple(self._scored(situation.replicas[at], at, totals, parts) for at in chosen)

    def _scored(self, replica: Replica, at: int, totals: list[float], parts: dict[str, list[float]]) -> Scored:
        named = {name: seconds[at] for name, seconds in parts.items()}
        return Scored(replica.address, replica.destination or "", totals[at], named)

    def _remember(self, session: str, address: str) -> None:
        self._sessions.pop(session, None)
        self._sessions[session] = address
        if len(self._sessions) > MOST_SESSIONS:
            del self._sessions[next(iter(self._sessions))]
