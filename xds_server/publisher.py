"""The loop that looks at the store and serves what changed. It keeps the last good state through every failure."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

import structlog

from tidegate.domain.actions.layers import retries_of
from tidegate.domain.errors import StoreError, StoreRefused
from tidegate.domain.sample import EndpointSample
from tidegate.domain.topology import Topology
from tidegate.domain.upstream import Upstream, tuned
from tidegate.runtime import backoff_seconds
from tidegate.store.nudged import Nudged
from tidegate.store.ports import Store
from xds_server.assembly import Assembler
from xds_server.cache import SnapshotCache
from xds_server.compose import Gateway, addresses_of, compose, host_of
from xds_server.consistency import InconsistentResources
from xds_server.desired import Desired
from xds_server.metrics import XdsMetrics
from xds_server.resolver import Resolver
from xds_server.store_view import StoreView
from xds_server.type_urls import ENDPOINT, SHORT_NAMES
from xds_server.weights import Pace

log = structlog.get_logger("xds_server.publisher")

FIRST_LOOK_MS: Final = 3_000
"""How long a start waits for the store before it serves by the file alone."""
SAMPLES_EVERY_MS: Final = 1_000
"""Between two looks at every sample, which cost more than all else together."""
REFILL_MS: Final = 20_000
"""How long after a start agents are given to fill a store that was found empty."""
REFUSED_WAIT_SECONDS: Final = 5.0


class Publisher:
    """Store → Desired → snapshot → cache. One task calls it; `desired` and `refused` are for presence."""

    def __init__(
        self,
        *,
        gateway: Gateway,
        topology: Topology,
        store: Store,
        cache: SnapshotCache,
        metrics: XdsMetrics,
        clock_ms: Callable[[], int],
        sample_ttl_ms: int,
        resolver: Resolver,
        picker_away: Callable[[], bool] = lambda: False,
        clients_hold_state: Callable[[], bool] = lambda: False,
    ) -> None:
        self._gateway, self._topology, self._store = gateway, topology, store
        self._cache, self._metrics, self._clock_ms = cache, metrics, clock_ms
        self._sample_ttl_ms, self._resolver, self._picker_away = sample_ttl_ms, resolver, picker_away
        self._clients_hold_state = clients_hold_state
        self._view, self._started_at_ms = StoreView(), clock_ms()
        self._nudged, self._found_empty = Nudged(store), False
        self._ordered = False
        self._held_ms: int | None = None
        self._assembler, self._pace = Assembler(), Pace()
        self.desired: Desired | None = None
        self._upstreams: dict[str, Upstream] = {}
        self.refused: str | None = None
        self.trouble: str | None = None

    async def run(self, tick_ms: int) -> None:
        """Look every `tick_ms`, and at once on a word that something was decided, until cancelled.

        When the store fails, with backoff up to 2 s.
        """
        async with asyncio.TaskGroup() as group:
            group.create_task(self._nudged.listen())
            await self._run(tick_ms / 1000)

    async def _run(self, tick_seconds: float) -> None:
        delays = backoff_seconds()
        while True:
            end = time.monotonic() + tick_seconds
            failure = await self.tick() or await self._follow(end)
            if failure is None:
                delays = backoff_seconds()
            else:
                slow = REFUSED_WAIT_SECONDS if isinstance(failure, StoreRefused) else 0.0
                await asyncio.sleep(max(slow, next(delays)))

    async def _follow(self, end: float) -> StoreError | None:
        """Until `end`: serve what operators typed as they type it, and what was held back as it comes due."""
        while (left := end - time.monotonic()) > 0:
            held = left if self._held_ms is None else self._held_ms / 1000
            if await self._nudged.within(min(left, held)):
                if failure := await self.look_at_orders():
                    return failure
            elif held < left:
                await self._publish()
        return None

    async def tick(self) -> StoreError | None:
        """Look once and serve what changed. The error of a store that failed, which changes nothing served."""
        failure = await self._look()
        if self._may_serve():
            await self._publish()
        return failure

    def _may_serve(self) -> bool:
        """Whether what is known is worth serving for the first time.

        Without the store that is the file, and an Envoy from before knows more: it keeps what it has. So it does when
        the store was emptied meanwhile, for as long as agents may take to fill a cluster that has nobody.
        """
        if self.desired is not None:
            return True
        since_start_ms = self._clock_ms() - self._started_at_ms
        if not self._view.read_at_ms:
            return since_start_ms >= FIRST_LOOK_MS and not self._clients_hold_state()
        lacks = any(not addresses_of(cluster, self._view) for cluster in self._topology.clusters)
        return not (self._found_empty and lacks and self._clients_hold_state()) or since_start_ms >= REFILL_MS

    async def look_at_orders(self) -> StoreError | None:
        """`tick` of weights and tunables alone, for what an operator typed; the error of a store that failed."""
        names = [cluster.name for cluster in self._topology.clusters]
        try:
            weights, keys, effects = await asyncio.gather(
                self._store.effective(names), self._store.operator_keys(names, ()), self._store.effects()
            )
        except StoreError as exc:
            self._tell(str(exc))
            return exc
        self._view, self._ordered = self._view.ordered(weights, keys.good_tunes(), keys.tuned, effects), True
        if self.desired is not None:
            await self._publish()
        return None

    async def picker_changed(self) -> None:
        """Serve what follows from it at once, whatever the store does; called beside `run`."""
        if self.desired is not None:
            await self._publish()

    async def _look(self) -> StoreError | None:
        names = [cluster.name for cluster in self._topology.clusters]
        try:
            weights, (registered, departed), samples, keys, effects = await asyncio.gather(
                self._store.effective(names),
                self._store.roll(),
                self._samples(),
                self._store.operator_keys(names, ()),
                self._store.effects(),
            )
        except StoreError as exc:
            self._tell(str(exc))
            return exc
        self._tell(None)
        if not self._view.read_at_ms:
            self._found_empty = not registered and not departed
        self._view = self._view.updated(
            weights=weights,
            registered=registered,
            departed=departed,
            samples=samples,
            tunes=keys.good_tunes(),
            tuned=keys.tuned,
            effects=effects,
            now_ms=self._clock_ms(),
        )
        return None

    async def _samples(self) -> list[EndpointSample] | None:
        """None most of the time: what they say of a replica, its weight says earlier, unless no controller lives."""
        age_ms = self._clock_ms() - self._view.read_at_ms
        return None if 0 <= age_ms < SAMPLES_EVERY_MS else await self._store.samples()

    def _tell(self, trouble: str | None) -> None:
        """Say a change of the store's state once, not at every tick."""
        if trouble is not None and self.trouble is None:
            log.warning("store does not answer; the last good state stays", error=trouble)
        elif trouble is None and self.trouble is not None:
            log.info("store answers again")
        self.trouble = trouble

    async def _publish(self) -> None:
        hosts = {host_of(a) for c in self._topology.clusters for a in addresses_of(c, self._view)}
        ips = await self._resolver.addresses(host for host in hosts if host is not None)
        away = self._picker_away()
        desired = compose(
            self._gateway,
            self._topology,
            self._view,
            ips,
            self._sample_ttl_ms,
            picker_away=away,
            upstreams=self._tuned(),
        )
        now_ms = self._clock_ms()
        due, self._held_ms = self._pace.due(self.desired, desired, now_ms, ordered=self._ordered)
        if due != self.desired:
            self._pace.took(self.desired, due, now_ms)
            self.desired = due
            self._serve(due)
        self._ordered = self._ordered and self._held_ms is not None

    def _tuned(self) -> Mapping[str, Upstream]:
        """The settings of every cluster: those of the file, then `tune`, then `tune:{cluster}`; retries as acts say.

        What is bad was left out as it was read; the controller says so.
        """
        acted: dict[str, Upstream] = {}
        for cluster in self._topology.clusters:
            settings, last = cluster.envoy, self._upstreams.get(cluster.name, cluster.envoy)
            for scope in ("", cluster.name):
                settings, _ = tuned(settings, self._view.tunes.get(scope, {}), last)
            self._upstreams[cluster.name] = settings
            retries = retries_of(cluster.name, settings.retries, self._view.effects, self._view.tunes)
            acted[cluster.name] = replace(settings, retries=retries)
        return acted

    def _serve(self, desired: Desired) -> None:
        try:
            snapshot = self._assembler.snapshot(desired)
        except (InconsistentResources, ValueError) as exc:
            self._metrics.refused_snapshots.inc()
            self.refused = str(exc)
            log.error("resources not served; the last good ones stay", error=self.refused)  # noqa: TRY400
            return
        self.refused = None
        changed = self._cache.set(snapshot)
        tell = log.debug if changed == (ENDPOINT,) else log.info  # weights change several times a second
        tell("serving", changed=[SHORT_NAMES[t] for t in changed])
