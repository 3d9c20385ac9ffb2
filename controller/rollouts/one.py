"""One rollout at one look: it begins, goes on, is refused, or takes an order off that comes too late."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Protocol

import msgspec
import structlog

from controller.audit import CONTROLLER
from tidegate.domain.operators import FieldChange
from tidegate.domain.rollout.course import GOING, Look, Order, Phase, State, Turn, advance, begin
from tidegate.domain.rollout.evidence import Evidence
from tidegate.domain.rollout.plan import Plan, read_plan
from tidegate.domain.split import Parts, fields_of, split_key, text_of
from tidegate.store.ports import Event, RawOperatorKeys
from tidegate.store.rollouts import (
    FIGURES,
    ORDER,
    ROLLOUTS,
    STATE,
    decode_evidence,
    decode_state,
    encode_evidence,
    encode_state,
    rollout_key,
)

LOOKS_WRITTEN_MS: Final = 5_000
"""How often a look is written down that changes nothing else: a successor knows about when the last one was."""

log = structlog.get_logger("controller.rollouts")


class Surroundings(Protocol):
    """What one rollout needs of the duty that carries out all of them."""

    def order_of(self, model: str) -> tuple[str, ...]:
        """The clusters that a split of the model may name."""

    def in_force(self, model: str, keys: RawOperatorKeys) -> Parts:
        """The split in force; without one, all for the cluster that lists the model."""

    def moved_for_good(self, model: str, typed: Mapping[str, str], ours: Mapping[str, str]) -> bool:
        """Whether the split differs from ours at two looks in a row."""

    async def write(self, model: str, changes: Sequence[FieldChange], events: Sequence[Event]) -> None:
        """Everything at once, fenced."""

    async def remove(self, model: str, fields: Mapping[str, str]) -> None:
        """What is left of a rollout that was deleted."""

    def count(self, what: str) -> None:
        """A turn, for the metrics page."""


class OneRollout:
    """One look at one rollout, and what of it is written."""

    def __init__(
        self, duty: Surroundings, model: str, fields: Mapping[str, str], keys: RawOperatorKeys, look: Look
    ) -> None:
        self._duty, self._model, self._fields, self._keys, self._look = duty, model, fields, keys, look
        self._order = duty.order_of(model)
        self._state = decode_state(fields.get(STATE))

    async def carry_on(self, *, listed: bool) -> None:
        """Begin, go on, or take an order off that comes too late."""
        state = self._state
        if state is not None and not self._is_asked_for(state):
            await self._duty.remove(self._model, self._fields)
        elif state is None or state.phase is Phase.REFUSED:
            await self._begin(listed=listed)
        elif state.phase in GOING:
            await self._go_on(state)
        else:
            await self._duty.write(self._model, self._order_taken(), [self._unheard(state)])

    def _is_asked_for(self, state: State) -> bool:
        """Whether an operator's fields are there. What is refused may lack any, until the next HSET."""
        if state.phase is Phase.REFUSED:
            return bool(self._fields.keys() - {STATE, FIGURES})
        return "to" in self._fields

    async def _begin(self, *, listed: bool) -> None:
        try:
            plan = read_plan(self._fields, self._duty.in_force(self._model, self._keys), self._order)
        except ValueError as exc:
            await self._refuse(str(exc))
            return
        turn = begin(plan, self._look, self._order)
        place = FieldChange(key=ROLLOUTS, field=self._model, value=str(turn.state.began_ms))
        await self._write(turn, () if listed else (place,))

    async def _refuse(self, why: str) -> None:
        if self._state is None or self._state.why != why or self._look.order:
            state = State(phase=Phase.REFUSED, why=why, looked_ms=self._look.now_ms)
            place = FieldChange(key=ROLLOUTS, field=self._model, value=str(self._look.now_ms))
            await self._write(Turn(state, Evidence(), after="refused", why=why), (place,))

    async def _go_on(self, state: State) -> None:
        evidence = decode_evidence(self._fields.get(FIGURES))
        ours = fields_of(state.split)
        moved = self._duty.moved_for_good(self._model, self._look.typed, ours)
        if dict(self._look.typed) != ours and not moved and self._look.order not in set(Order):
            return
        plan = self._plan(state)
        if isinstance(plan, str):
            await self._without_plan(state, evidence, plan)
            return
        await self._write(advance(plan, state, evidence, self._look, self._order))

    def _plan(self, state: State) -> Plan | str:
        """The plan as typed at present, between the versions that it began with; a sentence where it is none."""
        fixed = {**self._fields, "to": state.canary, "from": state.stable}
        before = tuple((name, int(share)) for name, share in fields_of(state.before).items())
        try:
            plan = read_plan(fixed, before, self._order)
        except ValueError as exc:
            return f"its fields make no plan any more: {exc}"
        if state.step >= len(plan.steps):
            return f"it is at step {state.step + 1}, and the plan has {len(plan.steps)} by now"
        return plan

    async def _without_plan(self, state: State, evidence: Evidence, why: str) -> None:
        """Pause, and go back on `abort` all the same, as far as both versions are still there."""
        if self._look.order == Order.ABORT:
            aborted = msgspec.structs.replace(state, phase=Phase.ABORTED, why="aborted by an operator")
            await self._write(Turn(aborted, evidence, self._without_canary(state), after="aborted", why=why))
        elif state.why != why or self._look.order:
            paused = msgspec.structs.replace(state, phase=Phase.PAUSED, why=why)
            await self._write(Turn(paused, evidence, after="paused", why=why))

    def _without_canary(self, state: State) -> Parts | None:
        shares = {name: int(share) for name, share in fields_of(state.split).items()}
        shares[state.stable] = shares.get(state.stable, 0) + shares.get(state.canary, 0)
        shares[state.canary] = 0
        there = all(name in self._order for name in shares)
        return tuple((name, shares[name]) for name in self._order if name in shares) if there else None

    async def _write(self, turn: Turn, more: Sequence[FieldChange] = ()) -> None:
        """State, figures and split at once, with their lines of the audit log."""
        changes = [*more, *self._order_taken(), *self._written(turn), *self._split(turn.parts)]
        if changes:
            await self._duty.write(self._model, changes, self._events(turn))
        if turn.after:
            self._duty.count(turn.after.partition(" ")[0] if turn.after.startswith("step") else turn.after)
            log.info("rollout", model=self._model, before=turn.before, after=turn.after, why=turn.why)

    def _written(self, turn: Turn) -> list[FieldChange]:
        key, changes = rollout_key(self._model), []
        figures = encode_evidence(turn.evidence)
        if figures != self._fields.get(FIGURES):
            changes.append(FieldChange(key=key, field=FIGURES, value=figures))
        if changes or self._worth_writing(turn.state):
            changes.append(FieldChange(key=key, field=STATE, value=encode_state(turn.state)))
        return changes

    def _worth_writing(self, state: State) -> bool:
        """Whether more than the time of the look differs, or that by much."""
        before = self._state
        if before is None or state.looked_ms - before.looked_ms >= LOOKS_WRITTEN_MS:
            return True
        return msgspec.structs.replace(before, looked_ms=state.looked_ms) != state

    def _split(self, parts: Parts | None) -> list[FieldChange]:
        if parts is None:
            return []
        key, shares = split_key(self._model), dict(parts)
        gone = [FieldChange(key=key, field=name, value=None) for name in self._look.typed.keys() - shares.keys()]
        return gone + [FieldChange(key=key, field=name, value=str(share)) for name, share in parts]

    def _order_taken(self) -> list[FieldChange]:
        typed = self._fields.get(ORDER)
        key = rollout_key(self._model)
        return [] if typed is None else [FieldChange(key=key, field=ORDER, value=None, only_if=typed)]

    def _events(self, turn: Turn) -> list[Event]:
        said = []
        if turn.after:
            said.append(self._event(rollout_key(self._model), turn.before, turn.after, turn.why))
        if turn.parts is not None:
            before = text_of(self._duty.in_force(self._model, self._keys))
            why = f"rollout: {turn.after}"
            said.append(self._event(split_key(self._model), before, text_of(turn.parts), why))
        return said

    def _unheard(self, state: State) -> Event:
        why = f"the order {self._look.order} came too late"
        return self._event(rollout_key(self._model), str(state.phase), str(state.phase), why)

    def _event(self, what: str, before: str, after: str, why: str) -> Event:
        return Event(at_ms=self._look.now_ms, who=CONTROLLER, what=what, before=before, after=after, why=why)


def is_due(fields: Mapping[str, str]) -> bool:
    """Whether there is anything to do: one that has ended rests, unless somebody orders something."""
    state = decode_state(fields.get(STATE))
    return ORDER in fields or state is None or state.phase in GOING or state.phase is Phase.REFUSED
