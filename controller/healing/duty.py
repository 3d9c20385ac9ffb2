"""The leader's look at how requests ended: which replicas get less, and which clusters no retries."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Final, Protocol

import structlog

from controller.actions.audit import Turn, event, turns
from controller.actions.instruments import ActionInstruments
from tidegate.domain import healing
from tidegate.domain.actions.act import Act, Deed, Kind
from tidegate.domain.faults import Ends
from tidegate.domain.healing import HealSettings, added, fault_ratio, part_of, retries_cut
from tidegate.domain.lease import Lease
from tidegate.domain.outcomes.ending import Ending
from tidegate.domain.outcomes.report import Report
from tidegate.domain.topology import Topology
from tidegate.domain.tuning import Tunes, typed_for
from tidegate.store.ports import Acts, Nudges, OperatorKeys, Outcomes, TimeSource

log = structlog.get_logger("controller.healing")

SOURCE: Final = "self-healing"
EVERY_SECONDS: Final = 2.0
UNTOLD_SECONDS: Final = 60.0
"""How long retries stay cut while too few requests tell: whoever counts them may have begun anew."""
_ANSWERS: Final = (Ending.SERVED, Ending.CLIENT_ERROR, Ending.BACK_PRESSURE)

Place = tuple[str, str]
Minute = Mapping[str, Mapping[str, Ends]]


class HealingStore(Acts, Nudges, OperatorKeys, Outcomes, TimeSource, Protocol):
    """What is read and written."""


class Healing:
    """A Duty. Belongs to one task. Acts in the store are what a successor goes on from.

    `seconds` is a clock that never goes back.
    """

    name = "healing"
    every_seconds = EVERY_SECONDS

    def __init__(
        self,
        store: HealingStore,
        topology: Topology,
        instruments: ActionInstruments,
        seconds: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store, self._instruments, self._seconds = store, instruments, seconds
        self._names = [cluster.name for cluster in topology.clusters]
        self._parts: dict[Place, float] = {}
        self._acts: Sequence[Act] = ()
        self._lease: Lease | None = None
        self._looked_at: float | None = None
        self._judged_at: dict[str, float] = {}

    async def tick(self, lease: Lease) -> None:
        """Look and act once. Raises NotLeading and StoreError."""
        written = await self._store.acts(SOURCE)
        if lease != self._lease and (written or self._lease is None):
            self._acts = written
            self._parts = {_place(act): act.deed.ratio or 0.0 for act in written if act.deed.kind is Kind.REDUCE}
        self._lease = lease
        now_ms = round(await self._store.time_ms())
        tunes = (await self._store.operator_keys(self._names, ())).good_tunes()
        seen = minute_of(await self._store.outcomes(self._names))
        acts = self._decided(seen, {name: settings_of(name, tunes) for name in self._names}, now_ms)
        if acts != tuple(written):
            await self._write(acts, now_ms, lease)
        self._acts = acts
        self._instruments.looked(acts, SOURCE)

    def _decided(self, seen: Minute, rules: Mapping[str, HealSettings], now_ms: int) -> tuple[Act, ...]:
        now = self._seconds()
        passed = 0.0 if self._looked_at is None else now - self._looked_at
        self._looked_at = now
        self._parts = {
            place: part
            for name in self._names
            for place, part in _parts(name, seen.get(name, {}), self._parts, passed, rules[name]).items()
        }
        known = {act.id: act for act in self._acts}
        began = {(act.deed.kind, *_place(act)): act for act in self._acts}
        acts = [
            _reduced(place, part, seen, began.get((Kind.REDUCE, *place)), now_ms)
            for place, part in sorted(self._parts.items())
            if part < 1.0
        ]
        for name in self._names:
            before, ends = began.get((Kind.RETRIES, name, "")), added(seen.get(name, {}).values())
            if self._cuts(name, ends, rules[name], before=before is not None):
                acts.append(before or _cut(name, ends, now_ms))
        return tuple(known[act.id] if known.get(act.id) == act else act for act in acts)

    def _cuts(self, name: str, ends: Ends, rules: HealSettings, *, before: bool) -> bool:
        now, cut = self._seconds(), retries_cut(ends, rules, before=before)
        if cut is not None:
            self._judged_at[name] = now
            return cut
        return before and now - self._judged_at.setdefault(name, now) < UNTOLD_SECONDS

    async def _write(self, acts: Sequence[Act], now_ms: int, lease: Lease) -> None:
        found = list(turns(self._acts, acts))
        events = [event(turn, act, now_ms, "faults are few again" if turn is Turn.ENDED else "") for turn, act in found]
        await self._store.write_acts(SOURCE, acts, events, lease=lease)
        await self._store.nudge()
        for turn, act in found:
            self._instruments.turned(turn, act)
            log.warning(
                "self-healing", turn=str(turn), kind=str(act.deed.kind), target=act.deed.target, cause=act.cause
            )


def minute_of(reports: Iterable[Report]) -> Minute:
    """By cluster and replica, how the last minute's requests ended, as all instances counted them."""
    found: dict[str, dict[str, Ends]] = {}
    for report in reports:
        for cluster, replicas in report.clusters.items():
            known = found.setdefault(cluster, {})
            for address, told in replicas.items():
                if address:
                    answers = sum(told.counts[one.place] for one in _ANSWERS)
                    own = Ends(told.counts[Ending.FAULT.place], answers)
                    known[address] = added((known.get(address, Ends()), own))
    return found


def settings_of(cluster: str, tunes: Tunes) -> HealSettings:
    """Those of one cluster: the defaults, with what `tune` and then `tune:{cluster}` set. `tunes` hold no bad value."""
    return healing.tuned(healing.DEFAULT, typed_for(cluster, tunes), healing.DEFAULT)[0]


def _parts(
    cluster: str, seen: Mapping[str, Ends], before: Mapping[Place, float], seconds: float, rules: HealSettings
) -> dict[Place, float]:
    """The parts of a cluster's replicas: of those that got requests, and of those that were reduced."""
    addresses = seen.keys() | {address for name, address in before if name == cluster}
    total = added(seen.values())
    found = {}
    for address in addresses:
        own = seen.get(address, Ends())
        others = Ends(total.faults - own.faults, total.answers - own.answers)
        part = part_of(own, others, before.get((cluster, address), 1.0), seconds, rules)
        if part < 1.0:
            found[cluster, address] = part
    return found


def _reduced(place: Place, part: float, seen: Minute, before: Act | None, now_ms: int) -> Act:
    """The act of a reduced replica; the one there is where nothing is to be told anew."""
    cluster, address = place
    ratio = min(1.0 - healing.STEP, healing.told(part))
    if before is not None and before.deed.ratio == ratio:
        return before
    since_ms = now_ms if before is None else before.since_ms
    ends = seen.get(cluster, {}).get(address, Ends())
    return Act(
        id=_id(Kind.REDUCE, cluster, address, since_ms) if before is None else before.id,
        deed=Deed(kind=Kind.REDUCE, cluster=cluster, replica=address, ratio=ratio),
        rule=SOURCE,
        cause=_cause(ends) if before is None or ratio < (before.deed.ratio or 1.0) else before.cause,
        since_ms=since_ms,
    )


def _cut(cluster: str, ends: Ends, now_ms: int) -> Act:
    ident = _id(Kind.RETRIES, cluster, "", now_ms)
    deed = Deed(kind=Kind.RETRIES, cluster=cluster, to=0)
    return Act(id=ident, deed=deed, rule=SOURCE, cause=_cause(ends), since_ms=now_ms)


def _cause(ends: Ends) -> str:
    return f"self-healing: {fault_ratio(ends) or 0.0:.0%} of {ends.faults + ends.answers} requests were faults"


def _id(kind: Kind, cluster: str, address: str, since_ms: int) -> str:
    return sha256("\0".join((SOURCE, kind, cluster, address, str(since_ms))).encode()).hexdigest()[:10]


def _place(act: Act) -> Place:
    return act.deed.cluster, act.deed.replica
