"""What the leader does beside weights, each at its own pace: rollouts, actions on alerts, replica targets."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

import structlog

from controller.instruments import Instruments
from tidegate.domain.errors import NotLeading, StoreError
from tidegate.domain.lease import Lease

log = structlog.get_logger("controller")


class Duty(Protocol):
    """One job of the leader. It keeps what it must not forget in the store: its successor may be another process."""

    @property
    def name(self) -> str:
        """What logs and metrics call it."""

    @property
    def every_seconds(self) -> float:
        """Between two looks."""

    async def tick(self, lease: Lease) -> None:
        """Look and act once. Every write is fenced by the lease. Raises NotLeading and StoreError, nothing else."""


async def carry_out(duty: Duty, lease: Callable[[], Lease | None], instruments: Instruments) -> None:
    """Tick while this controller leads, until cancelled.

    A store that fails is tried again at the next look. Anything else is a fault of the duty: it is logged and
    counted, and the duty goes on, since weights and the other duties must not end with it.
    """
    while True:
        held = lease()
        if held is not None:
            try:
                await duty.tick(held)
            except NotLeading:
                pass  # the loop finds out, and says so
            except StoreError:
                instruments.store_errors.inc()
            except Exception:
                instruments.duty_faults.labels(duty=duty.name).inc()
                log.exception("a duty of the controller failed", duty=duty.name)
        await asyncio.sleep(duty.every_seconds)
