"""Seconds that loading the request's LoRA adapter takes where it is not."""

from __future__ import annotations

from tidegate.domain.pick.situation import Situation


def adapter(situation: Situation) -> list[float] | None:
    """`adapter_seconds` where the adapter is neither in use nor was sent lately; nothing for requests without one."""
    name = situation.work.adapter
    if name is None or not situation.settings.adapter_seconds:
        return None
    load = situation.settings.adapter_seconds
    return [0.0 if name in replica.adapters else load for replica in situation.replicas]
