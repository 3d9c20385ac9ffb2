"""The tick: everything that this node knows, in one message. A store that fails gets the next tick, not this one."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, Final

import structlog

from metrics_agent.cadence import LOOK_EVERY, next_publish
from metrics_agent.crew import Engines
from metrics_agent.gpu import GpuReader, GpuReading, in_time_of, with_gpus
from metrics_agent.instruments import Instruments
from metrics_agent.scrape.watcher import EngineWatcher
from metrics_agent.targets import Place, Target
from tidegate.domain.errors import StoreError, StoreRefused
from tidegate.domain.sample import EndpointSample, NodeSample, NodeTick
from tidegate.store.clock import StoreClock
from tidegate.store.ports import Store

BEAT_EVERY_SECONDS: Final = 1.0
BEAT_TTL_MS: Final = 3_000
REFUSED_WAIT_SECONDS: Final = 1.0
ROUNDING_MS: Final = 2

log = structlog.get_logger("metrics_agent.publisher")


class Publisher:
    """Publishes the newest samples of `engines` and `gpus` as one node. Use from one event loop.

    Samples are timed by `clock.local` and published in the store's time. One publish is under way at most: while
    the store is slow or away, samples are replaced, not queued.
    """

    def __init__(
        self,
        store: Store,
        node: str,
        engines: Engines,
        gpus: GpuReader,
        instruments: Instruments,
        clock: StoreClock,
        *,
        interval_seconds: float,
        sample_ttl_ms: int,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store, self._node, self._engines, self._gpus = store, node, engines, gpus
        self._instruments, self._clock, self._interval = instruments, clock, interval_seconds
        self._ttl_ms, self._monotonic = sample_ttl_ms, monotonic
        self._seq = 0
        self._nvml: str | None = None
        self._published_at = monotonic()
        instruments.watch_age(lambda: monotonic() - self._published_at)
        self.trouble: str | None = "nothing is published yet"

    async def run(self) -> None:
        """Publish on the node's slots until cancelled."""
        while True:
            now = self._monotonic()
            slot = next_publish(now, self._interval)
            await asyncio.sleep(slot.earliest - now)
            await self._round(slot.began, slot.latest)
            await self.publish_once()

    async def _round(self, began: float, latest: float) -> None:
        """Wait until every engine that was read in the last slot is read in this one, but not past `latest`."""
        began_ms = self._clock.local() - (self._monotonic() - began) * 1000 - ROUNDING_MS
        while self._monotonic() < latest and not all(self._is_in(w, began_ms) for w in self._engines.watchers):
            await asyncio.sleep(self._interval * LOOK_EVERY)

    def _is_in(self, watcher: EngineWatcher, began_ms: float) -> bool:
        """Whether nothing of `watcher` is to be expected in this slot any more."""
        if watcher.latest is None:
            return True
        ahead_ms = watcher.latest.sampled_at_ms - began_ms
        return ahead_ms >= 0 or ahead_ms < -self._interval * 1000

    async def publish_once(self) -> None:
        """One tick. A StoreError is counted, and said once."""
        gone = set(self._engines.gone)
        self._show()
        try:
            if self._clock.measured is None:  # a time that is not the store's may look like the future
                await self._clock.measure()
            began = self._monotonic()
            await self._store.publish(self.tick(gone), ttl_ms=self._ttl_ms)
        except StoreError as exc:
            await self._failed(exc)
        else:
            self._engines.gone.difference_update(gone)
            self._succeeded(began)

    async def leave(self, places: Iterable[Place]) -> None:
        """The last tick: these engines left. Raises StoreError."""
        await self._store.publish(replace(self.tick(set(places)), endpoints=()), ttl_ms=self._ttl_ms)

    async def _failed(self, exc: StoreError) -> None:
        self._instruments.publish_failures.inc()
        if self.trouble != str(exc):
            log.warning("samples are not published", error=str(exc))
        self.trouble = str(exc)
        if isinstance(exc, StoreRefused):
            await asyncio.sleep(REFUSED_WAIT_SECONDS)

    def _succeeded(self, began: float) -> None:
        if self.trouble is not None:
            log.info("samples are published", node=self._node)
        self.trouble = None
        self._published_at = self._monotonic()
        self._instruments.publishes.inc()
        self._instruments.publish_seconds.observe(self._published_at - began)

    def tick(self, gone: Iterable[Place] = ()) -> NodeTick:
        """Everything known at this moment. A sample past its life is left out: it says nothing any more."""
        local, reading = self._clock.local(), self._gpus.latest()
        return NodeTick(
            node=self._node_sample(reading),
            endpoints=tuple(self._samples(local, reading)),
            gone=tuple(sorted(gone)),
        )

    def _samples(self, local_ms: int, reading: GpuReading) -> Iterable[EndpointSample]:
        for watcher in self._engines.watchers:
            sample = watcher.latest
            if sample is not None and sample.is_fresh(local_ms, self._ttl_ms):
                at_ms = self._clock.translated(sample.sampled_at_ms)
                told = replace(sample, sampled_at_ms=at_ms, **_registered(watcher.target, sample))
                yield with_gpus(told, reading, watcher.target.gpus)

    def _node_sample(self, reading: GpuReading) -> NodeSample:
        """`seq` follows the store's time, so that it grows across restarts and machines."""
        now = self._clock()
        self._seq = max(self._seq + 1, now)
        gpus = in_time_of(reading.gpus, self._clock.translated)
        return NodeSample(node=self._node, sampled_at_ms=now, seq=self._seq, nvml=reading.nvml, gpus=gpus)

    def _show(self) -> None:
        """Ages and NVML's state as metrics, whether the store is there or not."""
        local = self._clock.local()
        for sample in (watcher.latest for watcher in self._engines.watchers):
            if sample is not None:
                self._instruments.sample_age_seconds.labels(sample.address).set(sample.age_ms(local) / 1000)
        state = self._gpus.latest().nvml
        if self._nvml != state:
            self._nvml = state
            self._instruments.nvml_is(state)

    async def beat(self) -> None:
        """Say each second that this agent lives, until cancelled."""
        while True:
            info = {"pid": os.getpid(), "engines": len(self._engines.watchers), "nvml": self._gpus.latest().nvml}
            with contextlib.suppress(StoreError):  # publish_once says it
                await self._store.beat("agent", self._node, info, ttl_ms=BEAT_TTL_MS)
            if self._clock.measured is not None:
                self._instruments.clock_ahead_seconds.set(self._clock.measured.ahead_ms / 1000)
                self._instruments.round_trip_seconds.set(self._clock.measured.round_trip_ms / 1000)
            await asyncio.sleep(BEAT_EVERY_SECONDS)


def _registered(target: Target, sample: EndpointSample) -> dict[str, Any]:
    """What the registration says of an engine; models that only the engine names come after."""
    told: dict[str, Any] = {}
    if target.models:
        told["models"] = tuple(dict.fromkeys([*target.models, *sample.models]))
    if target.precision:
        told["precision"] = target.precision.value
    if target.kind:
        told["kind"] = target.kind.value
    return told
