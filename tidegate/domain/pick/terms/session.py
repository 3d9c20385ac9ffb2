"""Seconds that leaving a session's replica costs, beyond what the prefix says."""

from __future__ import annotations

from tidegate.domain.pick.situation import Situation


def session(situation: Situation) -> list[float] | None:
    """`session_seconds` everywhere but at the replica that the session was last sent to."""
    key, cost = situation.work.session, situation.settings.session_seconds
    if key is None or not cost:
        return None
    at = situation.sessions.get(key)
    return None if at is None else [0.0 if replica.address == at else cost for replica in situation.replicas]
