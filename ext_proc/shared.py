"""What this instance of ext_proc dispatched, told to the others, and what they dispatched, counted here.

Between two samples of an engine only ext_proc knows what it was sent, and of several instances each knows its own part:
they would all find the same replica idle. A dispatch is a record in a buffer; a task sends what gathered, at once after
a pause and then every GAP_SECONDS. Nothing waits for it: a store that is away, or slow, costs sharpness alone, and what
could not be told within MOST_AGE_MS is dropped, since by then samples have seen it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from typing import Final, Protocol

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from ext_proc.feed import SERVICE
from tidegate.domain.errors import StoreError
from tidegate.domain.pick.record import DispatchRecord
from tidegate.store.picks import PickBatch
from tidegate.store.ports import PickShare, Presence

GAP_SECONDS: Final = 0.005
"""Between two messages of one instance: 200 a second, whatever the traffic."""
MOST_RECORDS: Final = 256
"""Records in a message: one takes some 100 bytes, and 8 KiB with the marks of a very long prompt."""
MOST_KEPT: Final = 4096
"""Records that wait for the store; of more, the oldest are dropped."""
MOST_AGE_MS: Final = 1000
"""Age past which a record says nothing that a sample does not."""
MEET_SECONDS: Final = 0.5
"""Between two looks at who else is there: alone, nothing is sent."""
RETRY_SECONDS: Final = 0.25

Heard = Callable[[str, DispatchRecord, int], None]
"""Cluster, another instance's dispatch, and the time in Unix milliseconds."""


class ShareStore(PickShare, Presence, Protocol):
    """What sharing needs of the store."""


class SharedPicks:
    """The dispatches of all instances but this one, and theirs of this one. Belongs to the event loop.

    `record` is the hot path's; `publish`, `meet` and `follow` are endless tasks for `Service.spawn`. `clock` gives Unix
    milliseconds, by the store's clock. `told`, `heard`, `dropped` and `late` count records.
    """

    def __init__(self, store: ShareStore, instance: str, clock: Callable[[], int]) -> None:
        self._store, self._instance, self._clock = store, instance, clock
        self._kept: deque[tuple[str, DispatchRecord]] = deque()
        self._some = asyncio.Event()
        self.alone = True
        self.told = self.heard = self.dropped = self.late = 0
        self.delay_ms = 0.0

    def record(self, cluster: str, record: DispatchRecord) -> None:
        """This instance sent a request. Never waits, never raises."""
        if self.alone:
            return
        kept = self._kept
        if len(kept) >= MOST_KEPT:
            kept.popleft()
            self.dropped += 1
        kept.append((cluster, record))
        self._some.set()

    async def publish(self) -> None:
        """Tell the others what gathered. A store that fails is asked again; what grew old meanwhile is dropped."""
        while True:
            await self._some.wait()
            batch = self._take()
            try:
                if batch:
                    await self._store.share(PickBatch(self._instance, batch))
            except StoreError:  # the tasks that read the store say it
                self.dropped += len(batch)
                await asyncio.sleep(RETRY_SECONDS)
            else:
                self.told += len(batch)
                await asyncio.sleep(GAP_SECONDS)

    def _take(self) -> list[tuple[str, DispatchRecord]]:
        """The oldest records, as many as a message holds, without those that are too old."""
        kept, oldest = self._kept, self._clock() - MOST_AGE_MS
        while kept and kept[0][1].at_ms < oldest:
            kept.popleft()
            self.dropped += 1
        batch = [kept.popleft() for _ in range(min(len(kept), MOST_RECORDS))]
        if not kept:
            self._some.clear()
        return batch

    async def meet(self, met: Callable[[int, int], None]) -> None:
        """Look who else is there; `met` hears of each change: how many others, and this one's place among all."""
        known: list[str] = []
        while True:
            present = (await self._store.present()).get(SERVICE, {})
            everybody = sorted(present.keys() | {self._instance})
            if everybody != known:
                known, self.alone = everybody, len(everybody) == 1
                met(len(everybody) - 1, everybody.index(self._instance))
            await asyncio.sleep(MEET_SECONDS)

    async def follow(self, heard: Heard) -> None:
        """Hand every other instance's dispatches to `heard`. One that is too old, or ahead of time, is left out."""
        async for batch in self._store.shared():
            if batch.instance != self._instance:
                self._hear(batch, heard)

    def _hear(self, batch: PickBatch, heard: Heard) -> None:
        now_ms = self._clock()
        for cluster, record in batch.picks:
            if abs(now_ms - record.at_ms) > MOST_AGE_MS:
                self.late += 1
                continue
            self.heard += 1
            self.delay_ms += max(0.0, now_ms - record.at_ms)
            heard(cluster, record, now_ms)


class SharedPicksMetrics(Collector):
    """What was told and heard."""

    def __init__(self, registry: CollectorRegistry, shared: SharedPicks) -> None:
        self._shared = shared
        registry.register(self)

    def collect(self) -> Iterator[Metric]:
        shared = self._shared
        picks = CounterMetricFamily(
            "tidegate_ext_proc_shared_picks", "Dispatches told to and by other instances", labels=["what"]
        )
        for what in ("told", "heard", "dropped", "late"):
            picks.add_metric([what], getattr(shared, what))
        yield picks
        yield CounterMetricFamily(
            "tidegate_ext_proc_shared_picks_delay_seconds",
            "Age of what was heard, added up",
            value=shared.delay_ms / 1000,
        )
