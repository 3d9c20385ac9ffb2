"""The controller's loop: look and decide at each tick, at operators' keys in between, and what runs beside it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import structlog
from prometheus_client import CollectorRegistry

from controller.controller import Controller
from controller.duties import Duty, carry_out
from controller.fleet_metrics import FleetMetrics
from controller.instruments import Instruments
from tidegate.domain.errors import StoreError, StoreRefused
from tidegate.domain.topology import Topology
from tidegate.domain.weights import Rules
from tidegate.runtime import backoff_seconds
from tidegate.store.clock import StoreClock
from tidegate.store.ports import Store

MIXES_EVERY_SECONDS: Final = 1.0
OUTCOMES_EVERY_SECONDS: Final = 2.0
REFUSED_WAIT_SECONDS: Final = 5.0
LEAVE_SECONDS: Final = 0.5
STRAYS_EVERY_SECONDS: Final = 30.0
ORDERS_EVERY_SECONDS: Final = 0.05
"""Between two looks at operators' keys alone: one round trip of hashes that mostly are not there."""

log = structlog.get_logger("controller")


async def run(
    store: Store,
    topology: Topology,
    *,
    tick_ms: int = 250,
    sample_ttl_ms: int = 3_000,
    rules: Rules | None = None,
    clock: Callable[[], int] | None = None,
    registry: CollectorRegistry | None = None,
    instance: str | None = None,
    duties: Sequence[Duty] = (),
) -> None:
    """Decide every `tick_ms`, and within 50 ms of what operators type, until cancelled.

    A store that fails is retried with backoff and never raised.

    `clock` gives Unix milliseconds, and is the store's unless given; ages above `sample_ttl_ms` say nothing;
    `duties` are what it does beside weights while it leads. `instance` is the name under which presence shows this
    controller. May be called again with the same registry once it has ended.
    """
    instruments = Instruments(registry if registry is not None else CollectorRegistry())
    name = instance or f"{socket.gethostname()}:{os.getpid()}"
    own = StoreClock(store)
    controller = Controller(
        store, topology, sample_ttl_ms=sample_ttl_ms, rules=rules, clock=clock or own, instance=name
    )
    fleet_metrics = FleetMetrics(instruments.registry, controller)
    keepers = [
        asyncio.create_task(own.run(), name="clock"),
        asyncio.create_task(controller.keep_lead(), name="lease"),
        asyncio.create_task(_every(STRAYS_EVERY_SECONDS, controller.look_for_strays)),
        asyncio.create_task(_every(MIXES_EVERY_SECONDS, controller.look_at_mixes)),
        asyncio.create_task(_every(OUTCOMES_EVERY_SECONDS, controller.look_at_outcomes)),
        *(
            asyncio.create_task(carry_out(duty, lambda: controller.lease, instruments), name=duty.name)
            for duty in duties
        ),
    ]
    try:
        await _loop(controller, instruments, tick_ms / 1000)
    finally:
        for keeper in keepers:
            keeper.cancel()
        fleet_metrics.close()
        instruments.close()
        with contextlib.suppress(StoreError, TimeoutError):
            async with asyncio.timeout(LEAVE_SECONDS):
                await controller.resign()
                await store.leave("controller", name)


async def _every(seconds: float, look: Callable[[], Awaitable[None]]) -> None:
    """Look beside the ticks, until cancelled."""
    while True:
        with contextlib.suppress(StoreError):  # the loop says so
            await look()
        await asyncio.sleep(seconds)


async def _loop(controller: Controller, instruments: Instruments, tick_seconds: float) -> None:
    delays = backoff_seconds()
    failing: str | None = None
    while True:
        try:
            await _round(controller, instruments, tick_seconds)
        except StoreError as exc:
            instruments.store_errors.inc()
            if failing != str(exc):
                log.warning("store failed; the last weights stay", error=str(exc))
            failing = str(exc)
            await asyncio.sleep(REFUSED_WAIT_SECONDS if isinstance(exc, StoreRefused) else next(delays))
            continue
        if failing is not None:
            log.info("store is back")
            failing, delays = None, backoff_seconds()


async def _round(controller: Controller, instruments: Instruments, tick_seconds: float) -> None:
    """A look at everything, then at operators' keys until it is time for the next."""
    end = time.monotonic() + tick_seconds
    instruments.writes.inc(await controller.tick())
    spent = time.monotonic() - end + tick_seconds
    instruments.tick_seconds.observe(spent)
    if spent > tick_seconds:
        instruments.overruns.inc()
    while (left := end - time.monotonic()) > ORDERS_EVERY_SECONDS:
        await asyncio.sleep(min(left, ORDERS_EVERY_SECONDS))
        instruments.writes.inc(await controller.orders())
    await asyncio.sleep(max(0.0, end - time.monotonic()))
