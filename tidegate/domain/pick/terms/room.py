"""Seconds that the request waits for KV cache, beyond those that it waits for its turn."""

from __future__ import annotations

from tidegate.domain.pick.situation import Situation


def room(situation: Situation) -> list[float] | None:
    """What the time until there is room exceeds the wait by. None when every replica has room."""
    rooms = situation.rooms
    if rooms is None:
        return None
    return [max(0.0, until - own) for until, own in zip(rooms, situation.waits, strict=True)]
