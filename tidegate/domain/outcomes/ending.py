"""What one request came to."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec

from tidegate.domain.refusal import Reason


class Ending(StrEnum):
    """How a request ended, as to whose doing it was.

    SERVED         the engine answered 1xx, 2xx or 3xx, to the end
    CLIENT_ERROR   the engine answered 4xx but 429: the client's doing
    BACK_PRESSURE  the engine answered 429 or 503: it is full, and says so
    FAULT          the engine answered another 5xx, broke off, could not be reached or went silent
    LEFT           the client went away first: nobody's fault
    REFUSED        no engine was asked: Tidegate or Envoy answered

    `place` is its number in ENDINGS: an enum's hash is slow, and this is asked several times a request.
    """

    place: int

    SERVED = "served"
    CLIENT_ERROR = "client_error"
    BACK_PRESSURE = "back_pressure"
    FAULT = "fault"
    LEFT = "left"
    REFUSED = "refused"

    def __init__(self, _: str) -> None:
        self.place = len(type(self).__members__)


ENDINGS: Final = tuple(Ending)

GATEWAY: Final = "gateway"
"""The reason of an answer that Envoy gave by itself and for which the contract has no word."""
FOR_WANT_OF_ROOM: Final = frozenset({Reason.SATURATED, Reason.HELD, Reason.QUEUE_TIMEOUT, Reason.NO_ENDPOINT})
"""Refusals that are not the client's doing: they count against availability."""


def ending_of_status(status: int) -> Ending:
    """What an engine's whole answer means."""
    if status in (429, 503):
        return Ending.BACK_PRESSURE
    if status >= 500:
        return Ending.FAULT
    return Ending.CLIENT_ERROR if status >= 400 else Ending.SERVED


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """One request at its end. Text is "" where it is unknown, a time None.

    cluster        the version; "" where none was chosen
    replica        its address, as Redis knows it
    model          the name asked for, aliases resolved
    request_class  the class of the file that it fell into
    status         what the client was answered, 0 where nothing
    reason         of REFUSED: a Reason of the contract, or GATEWAY
    ttfb_ms        from the request's first byte to the first byte of the engine's answer, at the gateway
    total_ms       from the request's first byte to the last byte that the client was sent
    engine_ms      from the first byte sent to the replica to the last one it sent: without what the gateway held
    attempts       replicas tried, at least 1 where any was
    """

    cluster: str = ""
    replica: str = ""
    model: str = ""
    request_class: str = ""
    status: int = 0
    ending: Ending = Ending.SERVED
    reason: str = ""
    ttfb_ms: float | None = None
    total_ms: float | None = None
    engine_ms: float | None = None
    received_bytes: int = 0
    sent_bytes: int = 0
    attempts: int = 0
