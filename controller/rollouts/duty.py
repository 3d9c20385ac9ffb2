"""Carries out rollouts: looks at figures and orders, writes the split of the next step, or the way back."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import structlog

from controller.audit import CONTROLLER
from controller.rollouts.metrics import RolloutMetrics
from controller.rollouts.one import OneRollout, is_due
from controller.rollouts.silent import silent_versions
from tidegate.domain.actions import act
from tidegate.domain.actions.layers import with_splits
from tidegate.domain.lease import Lease
from tidegate.domain.operators import FieldChange
from tidegate.domain.outcomes.report import Report
from tidegate.domain.outcomes.version import VersionTold
from tidegate.domain.rollout.course import GOING, Look
from tidegate.domain.routing import PERMILLE
from tidegate.domain.split import Parts, fields_of, in_force, split_key
from tidegate.domain.topology import Topology
from tidegate.store.ports import Event, RawOperatorKeys, Store
from tidegate.store.rollouts import (
    ORDER,
    ROLLOUTS,
    STATE,
    decode_state,
    rollout_key,
)

EVERY_SECONDS: Final = 0.5
FORGOTTEN_SECONDS: Final = 10.0
"""After so long without a look, what is remembered of before another lease counts for nothing."""
GONE: Final = "0"
"""The place in `rollouts` of one that was deleted: a missing place means that Redis was emptied."""

Told = dict[str, dict[str, Mapping[str, VersionTold]]]

log = structlog.get_logger("controller.rollouts")


class Rollouts:
    """A Duty. What it must not forget is in the store; what it remembers serves to see what others did there."""

    name = "rollouts"
    every_seconds = EVERY_SECONDS

    def __init__(self, store: Store, topology: Topology, metrics: RolloutMetrics) -> None:
        self._store, self._topology, self._metrics = store, topology, metrics
        self._lease: Lease | None = None
        self._looked_at = 0.0
        self._known: dict[str, dict[str, str]] = {}
        self._moved: dict[str, Mapping[str, str]] = {}

    async def tick(self, lease: Lease) -> None:
        """Look at every rollout once. Raises NotLeading and StoreError."""
        self._led(lease)
        listed, places = await self._store.rollouts(self._topology.split_models)
        await self._notice_losses(listed, places)
        self._known = {model: dict(fields) for model, fields in listed.items()}
        self._metrics.show({model: decode_state(fields.get(STATE)) for model, fields in listed.items()})
        due = {model: fields for model, fields in listed.items() if is_due(fields)}
        if due:
            await self._look(due, places)

    def _led(self, lease: Lease) -> None:
        """An emptied Redis ends the lease too, and what is known is needed then; not after another one has led."""
        now = time.monotonic()
        if lease != self._lease:
            self._moved = {}
            if now - self._looked_at > FORGOTTEN_SECONDS:
                self._known = {}
        self._lease, self._looked_at = lease, now

    async def _look(self, due: Mapping[str, dict[str, str]], places: Mapping[str, str]) -> None:
        models = list(due)
        keys = await self._store.operator_keys((), models)
        effects, silent = await self._store.effects(), silent_versions(await self._store.present())
        keys = replace(keys, tuned=with_splits(keys.tuned, effects, models))
        told = by_model(await self._store.outcomes((), (), models), models)
        now_ms = round(await self._store.time_ms())
        for model, fields in due.items():
            look = Look(
                now_ms=now_ms,
                told=told[model],
                typed=keys.splits.get(model, {}),
                order=fields.get(ORDER, "").strip(),
                frozen=act.ROLLOUTS in effects.frozen,
                silent=(model, _canary(fields)) in silent,
            )
            await OneRollout(self, model, fields, keys, look).carry_on(listed=places.get(model, GONE) != GONE)

    async def _notice_losses(self, listed: Mapping[str, object], places: Mapping[str, str]) -> None:
        """A rollout that was deleted is over, and its split stays. One of an emptied store is written back."""
        for model in self._known.keys() - listed.keys():
            if model not in places:
                await self._restore(model, self._known[model])
        for model, place in places.items():
            if model not in listed and place != GONE:
                await self._forget(model)

    async def _restore(self, model: str, fields: Mapping[str, str]) -> None:
        state = decode_state(fields.get(STATE))
        changes = [FieldChange(key=rollout_key(model), field=name, value=value) for name, value in fields.items()]
        changes.append(FieldChange(key=ROLLOUTS, field=model, value=str(state.began_ms if state else 0)))
        if state is not None and state.phase in GOING:
            shares = fields_of(state.split).items()
            changes += [FieldChange(key=split_key(model), field=name, value=share) for name, share in shares]
        await self._store.change_fields(changes, (), lease=self._lease)
        log.warning("Redis was emptied; a rollout was written back", model=model)

    async def remove(self, model: str, fields: Mapping[str, str]) -> None:
        """What this controller wrote while somebody deleted the key goes too."""
        changes = [FieldChange(key=rollout_key(model), field=name, value=None) for name in fields]
        await self._store.change_fields(changes, (), lease=self._lease)
        await self._forget(model)

    async def _forget(self, model: str) -> None:
        now_ms = round(await self._store.time_ms())
        said = Event(
            at_ms=now_ms, who=CONTROLLER, what=rollout_key(model), after="", why="its key is gone; the split stays"
        )
        await self._store.change_fields([FieldChange(key=ROLLOUTS, field=model, value=GONE)], [said], lease=self._lease)

    # --- what one rollout needs of its surroundings ---------------------------------------------------------

    def order_of(self, model: str) -> tuple[str, ...]:
        """The clusters that a split of the model may name."""
        return self._topology.versions(model)

    def in_force(self, model: str, keys: RawOperatorKeys) -> Parts:
        """The split in force; without one, all for the cluster that lists the model."""
        split = in_force(self._topology, keys.tuned).get(model)
        return split.parts if split is not None else ((self.order_of(model)[0], PERMILLE),)

    def moved_for_good(self, model: str, typed: Mapping[str, str], ours: Mapping[str, str]) -> bool:
        """Whether the split differs from ours at two looks in a row: it may be in the middle of two HSETs."""
        before, moved = self._moved.pop(model, None), dict(typed) != dict(ours)
        if moved:
            self._moved[model] = typed
        return moved and before == typed

    async def write(self, model: str, changes: Sequence[FieldChange], events: Sequence[Event]) -> None:
        """Everything at once, fenced."""
        await self._store.change_fields(changes, events, lease=self._lease)
        for change in changes:
            if change.key == rollout_key(model) and change.value is not None:
                self._known.setdefault(model, {})[change.field] = change.value

    def count(self, what: str) -> None:
        """A turn, for the metrics page."""
        self._metrics.count(what)


def _canary(fields: Mapping[str, str]) -> str:
    state = decode_state(fields.get(STATE))
    return state.canary if state is not None else ""


def by_model(reports: Sequence[Report], models: Sequence[str]) -> Told:
    """By model, run and cluster, what the instances told that tell versions at all."""
    telling = [report for report in reports if report.run]
    return {model: {report.run: report.versions.get(model, {}) for report in telling} for model in models}
