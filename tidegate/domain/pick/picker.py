"""Which replica of a cluster a request goes to: the books of all its replicas, and one pick from them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

from tidegate.domain.pick.choice import best_two
from tidegate.domain.pick.fit import demand_tokens, prefill_tokens
from tidegate.domain.pick.fleet import Fleet
from tidegate.domain.pick.mirror import Mirror
from tidegate.domain.pick.prefix import PrefixIndex
from tidegate.domain.pick.queued import Entry
from tidegate.domain.pick.record import DispatchRecord
from tidegate.domain.pick.replica import Replica
from tidegate.domain.pick.settings import PickSettings
from tidegate.domain.pick.situation import Situation
from tidegate.domain.pick.stay import Stay
from tidegate.domain.pick.thinned import Thinned
from tidegate.domain.pick.turns import Turns
from tidegate.domain.pick.verdict import Pick, Verdict
from tidegate.domain.pick.work import Work
from tidegate.domain.sample import EndpointSample

MOST_SESSIONS: Final = 100_000
"""Sessions remembered, those least recently sent forgotten first."""

WORTH_MS: Final = 30.0
"""Prefill time of a whole prompt below which nobody looks for its prefix: what that saves, some two engine steps, is
less than what the many that share a short prompt would cost one another on the same replica."""


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
        self._fleet = Fleet()
        self._replicas = self._fleet.by_address
        self._index = PrefixIndex()
        self._turns = Turns()
        self._mirror = Mirror()
        self._stay = Stay()
        self._sessions: dict[str, str] = {}
        self._thinned = Thinned()

    @property
    def settings(self) -> PickSettings:
        """Those in force."""
        return self._settings

    @property
    def index_entries(self) -> int:
        """(replica, mark) pairs that the prefix index holds."""
        return len(self._index)

    def pending(self) -> Iterator[tuple[str, int]]:
        """Address, and dispatches to it that its samples do not count yet."""
        return ((replica.address, len(replica.queued)) for replica in self._fleet)

    def tune(self, settings: PickSettings) -> None:
        """From the next pick on these hold; books stay."""
        self._settings = settings

    def shares_with(self, others: int, place: int = 0) -> None:
        """So many other processes pick for the same cluster, and tell by `sent_elsewhere` what they did.

        `place`, 0 to `others`, is this one's among all.
        """
        self._mirror.others = others
        self._turns.begin(place / (others + 1))

    def joined(self, address: str, destination: str | None, priority: int = 0) -> None:
        """A replica, or what changed about it: the `ip:port` that Envoy knows it by, None while its name is unresolved.

        Lower priorities are preferred.
        """
        replica = self._fleet.get(address)
        known = replica is not None and replica.priority == priority
        if replica is None:
            replica = self._fleet.enter(address, self._settings)
            self._index.add(replica.slot, self._settings.kv_tokens)
        replica.destination, replica.priority = destination, priority
        replica.look()
        if not known:
            self._fleet.level()

    def left(self, address: str) -> None:
        """The replica is gone, and what was sent there is forgotten."""
        replica = self._fleet.leave(address)
        if replica is not None:
            self._index.drop(replica.slot)

    def weighed(self, address: str, weight: int | None) -> None:
        """The controller's weight, 0…1000; 0 means no new traffic, None that nobody decided."""
        if (replica := self._fleet.get(address)) is not None:
            replica.weight = weight
            replica.look()

    def thin(self, parts: Mapping[str, float]) -> None:
        """From the next pick on these addresses get such a part (0…1) of an equal share at most, all others any."""
        self._thinned.set(parts)

    def sampled(self, sample: EndpointSample, now_ms: float) -> None:
        """A sample of a replica that joined. One older than a known fresh one is late and dropped."""
        replica = self._fleet.get(sample.address)
        if replica is None:
            return
        last = replica.sample
        if last is not None and sample.sampled_at_ms < last.sampled_at_ms and last.is_fresh(int(now_ms), self._ttl_ms):
            return
        windows, block = replica.speed.windows, replica.block
        if replica.sampled(sample, now_ms, self._settings, self._ttl_ms):
            self._index.clear(replica.slot)
        if replica.speed.windows != windows or replica.block != block:
            self._fleet.level()
        self._stay.sampled(last, sample)
        held = replica.capacity or self._settings.kv_tokens
        self._index.resize(replica.slot, held * replica.hits.looked(sample.prefix_hit_ratio, now_ms))

    def pick(
        self,
        work: Work,
        now_ms: float,
        *,
        hold_seconds: float | None = None,
        among: Collection[str] | None = None,
        spare_ratio: float = 0.0,
    ) -> Pick:
        """Up to two replicas for the request, best first, or why there are none.

        `hold_seconds` (None: the setting) answers FULL also where every replica that fits would make it wait longer.
        `among` are addresses: while any of those serves, no other is chosen. `spare_ratio` (0…1) is the part of each
        replica's KV cache that has to stay free beside the request.
        """
        self._mirror.expire(now_ms)
        usable = self._fleet.usable(now_ms, among)
        if not usable:
            return Pick(Verdict.CLOSED if self._fleet.closed(now_ms) else Verdict.UNKNOWN)
        fitting, rooms = self._fitting(self._thinned.among(usable), work, spare_ratio)
        if not fitting and self._thinned.parts:
            fitting, rooms = self._fitting(usable, work, spare_ratio)
        if not fitting:
            return Pick(Verdict.FULL)
        situation = self._situation(work, fitting, rooms, now_ms)
        hold = self._settings.hold_seconds if hold_seconds is None else hold_seconds
        if 0 < hold < min(situation.waits):
            return Pick(Verdict.FULL)
        return Pick(Verdict.CHOSEN, best_two(situation, self._turns))

    def sent(self, address: str, work: Work, now_ms: float) -> Handle:
        """The request goes to `address`: it counts there until the engine has, or until `ended`."""
        replica = self._fleet.get(address)
        if replica is None:
            return Handle(None, Entry(now_ms, 0.0, work.sequences, 0), work)
        cached = self._index.cached_at(replica.slot, work.marks, work.ends)
        tokens = prefill_tokens(work, cached, self._settings)
        entry = Entry(now_ms, tokens, work.sequences, max(0, work.kv_tokens - cached))
        handle = Handle(replica, entry, work)
        self._count(replica, entry, work.marks, work.ends, now_ms)
        self._mirror.add(replica.queued, entry.tokens, now_ms)
        replica.hits.sent(cached, work.prompt_tokens, now_ms)
        if work.adapter is not None:
            replica.has(work.adapter)
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
        replica = self._fleet.get(record.address)
        if replica is not None:
            entry = Entry(record.at_ms, record.prefill_tokens, record.prompts, record.kv_tokens)
            self._count(replica, entry, record.marks, record.ends, now_ms)

    def _count(self, replica: Replica, entry: Entry, marks: Sequence[int], ends: Sequence[int], now_ms: float) -> None:
        replica.sent(entry, now_ms, self._settings)
        self._index.put(replica.slot, marks, ends)

    def _fitting(
        self, usable: list[Replica], work: Work, spare_ratio: float
    ) -> tuple[list[Replica], list[float] | None]:
        """Those that have room or soon will, of the lowest priority; none where nobody has. Seconds until they do."""
        demand = demand_tokens(work, self._fleet.block)
        rooms = self._stay.rooms(usable, demand, self._settings, spare_ratio)
        if rooms is None:
            return self._fleet.first_level(usable, None)
        if min(rooms) > 0:
            return [], None
        most = self._settings.room_seconds
        near = [at for at, room in enumerate(rooms) if room <= most]
        return self._fleet.first_level([usable[at] for at in near], [rooms[at] for at in near])

    def _situation(self, work: Work, replicas: list[Replica], rooms: list[float] | None, now_ms: float) -> Situation:
        whole = prefill_tokens(work, 0, self._settings)
        waits = [(r.queued.free_at_ms - now_ms) / 1000 if r.queued.free_at_ms > now_ms else 0.0 for r in replicas]
        worth = work.marks and not work.pixel_steps and whole * replicas[0].ms_per_token > WORTH_MS
        cached = self._index.cached(work.marks, work.ends) if worth else ()
        if cached:
            by_slot = self._by_slot(cached, work.prompt_tokens, whole)
            uncached = [by_slot[r.slot] for r in replicas]
        else:
            uncached = [whole] * len(replicas)
        equal = self._settings.equal_seconds + self._mirror.unseen * replicas[0].ms_per_token / 1000
        return Situation(work, replicas, now_ms, self._settings, uncached, waits, rooms, self._sessions, equal)

    def _by_slot(self, cached: Sequence[tuple[int, int]], prompt_tokens: int, whole: float) -> list[float]:
        tokens = [whole] * self._fleet.slots
        for bits, held in cached:
            left, rest = max(1.0, prompt_tokens - held), bits
            while rest:
                slot = rest.bit_length() - 1
                tokens[slot] = left
                rest ^= 1 << slot
        return tokens

    def _remember(self, session: str, address: str) -> None:
        self._sessions.pop(session, None)
        self._sessions[session] = address
        if len(self._sessions) > MOST_SESSIONS:
            del self._sessions[next(iter(self._sessions))]
