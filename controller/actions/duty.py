"""The leader's look at the inbox, ten times a second: notices in, acts out."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final, Protocol

import structlog

from controller.actions.audit import Turn, end_of, event, turns
from controller.actions.instruments import ActionInstruments
from tidegate.domain.actions.act import Act
from tidegate.domain.actions.book import Book
from tidegate.domain.actions.effects import summed
from tidegate.domain.actions.notice import Notice
from tidegate.domain.lease import Lease
from tidegate.store.acts import ALERTS
from tidegate.store.ports import Acts, Delivered, Event, Inbox, Nudges

TAKEN_AT_ONCE: Final = 500

log = structlog.get_logger("controller.actions")


class ActionStore(Acts, Inbox, Nudges, Protocol):
    """What is read and written."""


class ActionsDuty:
    """A Duty: takes notices in, begins and ends acts, writes both, tells everyone.

    Acts of rules that are none of `rules` end: who takes a rule out of the file wants what it did undone. An emptied
    store gets back what this controller knows.
    """

    name = "actions"
    every_seconds = 0.1

    def __init__(self, store: ActionStore, rules: Collection[str], instruments: ActionInstruments) -> None:
        self._store, self._rules, self._instruments = store, frozenset(rules), instruments
        self._lease: Lease | None = None
        self._book, self._acts = Book(), tuple[Act, ...]()

    async def tick(self, lease: Lease) -> None:
        """Look and act once."""
        heard = await self._store.delivered(TAKEN_AT_ONCE)
        before, acts = await self._known(lease, heard)
        after = before.after(heard.notices, heard.now_ms)
        if forgotten := {one.key for one in heard.notices} - after.notices.keys():
            log.warning("more alerts than are remembered; the newest do nothing", count=len(forgotten))
        now = tuple(act for act in after.acts(heard.now_ms) if act.rule in self._rules)
        changed = _changed(before if heard.kept else Book(), after)
        if heard.taken or changed or now != acts or not heard.kept:
            told = list(turns(acts, now))
            events = [self._event(turn, act, after, heard.now_ms) for turn, act in told]
            await self._store.settle(heard.taken, changed, now, events, lease=lease)
            for turn, act in told:
                self._instruments.turned(turn, act)
                log.info("act", turn=str(turn), kind=str(act.deed.kind), target=act.deed.target, rule=act.rule)
        self._lease, self._book, self._acts = lease, after, now
        self._instruments.looked(now)
        if summed(now) != summed(acts) or not heard.kept:
            await self._store.nudge()

    async def _known(self, lease: Lease, heard: Delivered) -> tuple[Book, Sequence[Act]]:
        """What is known before this look: what the store says as a lead begins, unless it was emptied."""
        if not heard.kept and self._book.notices:
            log.warning("Redis was emptied; notices and acts are written back")
        if self._lease == lease or not heard.kept:
            return self._book, self._acts
        return Book(await self._store.notices()), await self._store.acts(ALERTS)

    def _event(self, turn: Turn, act: Act, book: Book, now_ms: int) -> Event:
        why = end_of(act, book.notices, now_ms) if turn is Turn.ENDED else ""
        return event(turn, act, now_ms, why)


def _changed(before: Book, after: Book) -> Mapping[str, Notice | None]:
    """What to write: notices that are new or differ, and None for those to forget."""
    fresh = {key: one for key, one in after.notices.items() if before.notices.get(key) != one}
    return {**fresh, **dict.fromkeys(before.notices.keys() - after.notices.keys())}
