"""What a pick says."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

import msgspec


class Verdict(StrEnum):
    """Why a pick names replicas, or why it names none.

    CHOSEN   one or two replicas are named
    FULL     replicas serve, and none has room for this request: it waits, or is told to come back
    UNKNOWN  no replica has a fresh sample: Envoy's weights decide
    CLOSED   every replica is known to take nothing: drained, asleep, loading, unreachable
    """

    CHOSEN = "chosen"
    FULL = "full"
    UNKNOWN = "unknown"
    CLOSED = "closed"


class Scored(msgspec.Struct, frozen=True):
    """A replica that was named. `cost` is in seconds under the cost policy; `parts` are its terms by name."""

    address: str
    destination: str
    cost: float
    parts: Mapping[str, float] = msgspec.field(default_factory=dict)


class Pick(msgspec.Struct, frozen=True):
    """The outcome of one pick: up to two replicas, best first."""

    verdict: Verdict
    chosen: tuple[Scored, ...] = ()
