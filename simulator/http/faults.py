"""Faults that tests ask for: answer errors, hang, stay loading, die."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Callable
from enum import StrEnum
from typing import Annotated

from msgspec import Meta, Struct

from simulator.http.errors import ApiError


class FaultKind(StrEnum):
    """`error`: requests are answered `status`. `hang`: nothing is ever answered, health and metrics included.
    `loading`: health and requests are answered 503. `die`: the process ends at once, without cleaning up.
    """

    NONE = "none"
    ERROR = "error"
    HANG = "hang"
    LOADING = "loading"
    DIE = "die"


class Fault(Struct, frozen=True):
    """The body of POST /sim/fault. `share` (0 to 1) of requests meet `error` or `hang`."""

    fault: FaultKind
    status: Annotated[int, Meta(ge=400, le=599)] = 500
    share: Annotated[float, Meta(ge=0, le=1)] = 1.0


class Faults:
    """The fault in force. `clock` gives seconds; until `loading_until` the engine is loading whatever the fault."""

    def __init__(self, fault: Fault, rng: random.Random, clock: Callable[[], float], loading_until: float) -> None:
        self._fault, self._rng, self._clock, self._loading_until = fault, rng, clock, loading_until

    @property
    def loading(self) -> bool:
        """Whether the engine says that it is not ready."""
        return self._fault.fault is FaultKind.LOADING or self._clock() < self._loading_until

    def set(self, fault: Fault) -> None:
        """Put a fault in force. `none` ends loading too."""
        if fault.fault is FaultKind.DIE:
            os._exit(1)
        if fault.fault is FaultKind.NONE:
            self._loading_until = 0.0
        self._fault = fault

    async def meet(self, generating: bool) -> None:
        """Let one request meet the fault: raises ApiError, never returns, or returns."""
        if generating and self.loading:
            raise ApiError(503, "ServiceUnavailableError", "The model is loading.")
        if self._fault.fault is FaultKind.HANG and self._hit():
            await asyncio.Event().wait()
        if generating and self._fault.fault is FaultKind.ERROR and self._hit():
            raise ApiError(self._fault.status, "InternalServerError", "Injected by POST /sim/fault.")

    def _hit(self) -> bool:
        return self._fault.share >= 1 or self._rng.random() < self._fault.share
