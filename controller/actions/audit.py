"""The events of acts: one as each begins, one as it ends."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum

from controller.audit import CONTROLLER
from tidegate.domain.actions.act import Act
from tidegate.domain.actions.notice import Notice
from tidegate.domain.lifetime import time_text
from tidegate.store.ports import Event


class Turn(StrEnum):
    """What happened to an act; a dry run is told as it would begin."""

    BEGAN = "began"
    ENDED = "ended"
    DRY_RUN = "dry_run"


def turns(before: Sequence[Act], after: Sequence[Act]) -> Iterator[tuple[Turn, Act]]:
    """Acts that began and ended between two looks. The ends of dry runs are no news."""
    was, now = {act.id: act for act in before}, {act.id: act for act in after}
    for ident, act in now.items():
        if ident not in was:
            yield (Turn.DRY_RUN if act.dry_run else Turn.BEGAN), act
    for ident, act in was.items():
        if ident not in now and not act.dry_run:
            yield Turn.ENDED, act


def event(turn: Turn, act: Act, at_ms: int, why: str = "") -> Event:
    """`act:retries phi-3`: from nothing to `to 0` and back, with the rule and the identifier."""
    what = f"act:{act.deed.kind} {act.deed.target}"
    value, named = act.deed.value or "on", f"rule {act.rule}, act {act.id}"
    if turn is Turn.ENDED:
        return Event(at_ms=at_ms, who=CONTROLLER, what=what, before=value, why=f"{why}; {named}")
    until = f" until {time_text(act.until_ms)}" if act.until_ms is not None else ""
    said = f"{named}{until}" if turn is Turn.BEGAN else f"dry run: would begin; {named}"
    return Event(at_ms=at_ms, who=act.cause, what=what, after=value if turn is Turn.BEGAN else "", why=said)


def end_of(act: Act, notices: Mapping[str, Notice], now_ms: int) -> str:
    """Why an act ended."""
    notice = next((one for one in notices.values() if act.id in one.ids()), None)
    if notice is not None and act.id in notice.cancelled:
        return f"cancelled by {notice.cancelled[act.id]}"
    if notice is not None and notice.over:
        return "resolved" if notice.from_ms is None else "deleted"
    if act.until_ms is not None and now_ms >= act.until_ms:
        return "its time is over"
    return "no rule asks for it any more" if notice is None or not notice.acts(now_ms) else "something newer"
