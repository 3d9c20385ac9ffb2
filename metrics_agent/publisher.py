"""The tick: everything that this node knows, in one message. A store that fails gets the next tick, not this one."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Callable, Sequence
from typing import Final

import structlog

from metrics_agent.cadence import next_publish
from metrics_agent.gpu import GpuReader, GpuReading, with_gpus
from metrics_agent.instruments import Instruments
from metrics_agent.scrape.watcher import EngineWatcher
from tidegate.domain.errors import StoreError, StoreRefused
from tidegate.domain.sample import EndpointSample, NodeSample, NodeTick
from tidegate.store.ports import Store

BEAT_EVERY_SECONDS: Final = 1.0
BEAT_TTL_MS: Final = 3_000
REFUSED_WAIT_SECONDS: Final = 1.0

log = structlog.get_logger("metrics_agent.publisher")


class Publisher:
    """Publishes the newest samples of `watchers` and `gpus` as one node. Use from one event loop."""

    def __init__(
        self,
        store: Store,
        node: str,
        watchers: Sequence[EngineWatcher],
        gpus: GpuReader,
        instruments: Instruments,
        *,
        interval_seconds: float,
        sample_ttl_ms: int,
        clock: Callable[[], int],
    ) -> None:
        self._store, self._node, self._watchers, self._gpus = store, node, watchers, gpus
        self._instruments, self._interval = instruments, interval_seconds
        self._ttl_ms, self._clock = sample_ttl_ms, clock
        self._seq = clock()  # grows across restarts: an agent ticks slower than once a millisecond
        self.trouble: str | None = "nothing is published yet"

    async def run(self) -> None:
        """Publish on the node's slots until cancelled."""
        while True:
            now = time.monotonic()
            await asyncio.sleep(next_publish(now, self._interval) - now)
            await self.publish_once()

    async def publish_once(self) -> None:
        """One tick. A StoreError is counted, and said once."""
        try:
            await self._store.publish(self.tick(), ttl_ms=self._ttl_ms)
        except StoreError as exc:
            self._instruments.publish_failures.inc()
            if self.trouble != str(exc):
                log.warning("samples are not published", error=str(exc))
            self.trouble = str(exc)
            if isinstance(exc, StoreRefused):
                await asyncio.sleep(REFUSED_WAIT_SECONDS)
            return
        if self.trouble is not None:
            log.info("samples are published", node=self._node)
        self.trouble = None
        self._instruments.publishes.inc()

    def tick(self) -> NodeTick:
        """Everything known at this moment. A sample past its life is left out: it says nothing any more."""
        now, reading = self._clock(), self._gpus.latest()
        self._seq += 1
        samples = [_with_gpus(w, reading) for w in self._watchers]
        for sample in samples:
            if sample is not None:
                age_seconds = sample.age_ms(now) / 1000
                self._instruments.sample_age_seconds.labels(sample.address).set(age_seconds)
        return NodeTick(
            node=NodeSample(
                node=self._node, sampled_at_ms=now, seq=self._seq, nvml=reading.nvml, gpus=dict(reading.gpus)
            ),
            endpoints=tuple(s for s in samples if s is not None and s.is_fresh(now, self._ttl_ms)),
        )

    async def beat(self) -> None:
        """Say each second that this agent lives, until cancelled."""
        while True:
            info = {"pid": os.getpid(), "engines": len(self._watchers), "nvml": self._gpus.latest().nvml}
            with contextlib.suppress(StoreError):  # publish_once says it
                await self._store.beat("agent", self._node, info, ttl_ms=BEAT_TTL_MS)
            await asyncio.sleep(BEAT_EVERY_SECONDS)


def _with_gpus(watcher: EngineWatcher, reading: GpuReading) -> EndpointSample | None:
    return None if watcher.latest is None else with_gpus(watcher.latest, reading, watcher.target.gpus)
