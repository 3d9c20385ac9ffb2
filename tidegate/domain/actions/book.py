"""What the leader knows of every notice, and the acts that follow. Values in, values out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from tidegate.domain.actions.act import Act
from tidegate.domain.actions.notice import Notice

MOST_NOTICES: Final = 1_000
"""Alerts and annotations that are remembered at once; of more, those that began first stay."""


@dataclass(frozen=True, slots=True)
class Book:
    """Notices by key."""

    notices: Mapping[str, Notice] = field(default_factory=dict)

    def after(self, heard: Iterable[Notice], now_ms: int) -> Book:
        """This book with what was heard, without what may be forgotten.

        The order of `heard`, and how often a notice stands in it, do not matter to those that have a time of their
        own. One without (`version_ms` 0) is what its key already is about, unless that is over.
        """
        notices = dict(self.notices)
        for notice in heard:
            known = notices.get(notice.key)
            dated = notice if notice.version_ms else _dated(notice, known)
            notices[notice.key] = dated if known is None else known.joined(dated)
        return Book(_bounded({key: one for key, one in notices.items() if not one.forgettable(now_ms)}, now_ms))

    def acts(self, now_ms: int) -> list[Act]:
        """Those in force, the oldest first."""
        found = [act for notice in self.notices.values() for act in notice.acts(now_ms)]
        return sorted(found, key=lambda act: (act.since_ms, act.id))


def _dated(notice: Notice, known: Notice | None) -> Notice:
    """A window that was moved is another one; an alert that goes on is the same."""
    moved = known is not None and notice.window != known.window and not notice.over
    same = known is not None and (notice.over or not known.over) and not moved
    version_ms = known.version_ms if known is not None and same else notice.first_ms
    ended_ms = max(notice.ended_ms or 0, version_ms) if notice.over else None
    return replace(notice, version_ms=version_ms, ended_ms=ended_ms)


def _bounded(notices: dict[str, Notice], now_ms: int) -> dict[str, Notice]:
    if len(notices) <= MOST_NOTICES:
        return notices
    ranked = sorted(notices.items(), key=lambda one: (not one[1].acts(now_ms), one[1].first_ms, one[0]))
    return dict(ranked[:MOST_NOTICES])
