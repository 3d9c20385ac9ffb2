"""Wiring of `tidegate agent`."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Coroutine
from typing import Any

import structlog
from prometheus_client import CollectorRegistry

from metrics_agent.crew import Crew
from metrics_agent.gpu import GpuReader
from metrics_agent.gpu.process import NvmlGpus
from metrics_agent.health import trouble
from metrics_agent.instruments import Instruments
from metrics_agent.publisher import Publisher
from metrics_agent.registration.flags import read_flags
from metrics_agent.registration.folder import EngineFolder
from metrics_agent.registration.follow import FolderFollower
from metrics_agent.scrape.http import HttpPages, PageSource
from metrics_agent.scrape.tls import EngineTls
from metrics_agent.scrape.watcher import EngineWatcher
from metrics_agent.targets import Target, each_once, targets
from tidegate.domain.errors import ConfigError, StoreError
from tidegate.domain.topology import Topology
from tidegate.runtime import Service
from tidegate.settings.config_file import load
from tidegate.settings.config_model import RedisSection
from tidegate.settings.services import AgentSettings
from tidegate.store.clock import StoreClock
from tidegate.store.ports import Store
from tidegate.store.redis import RedisStore
from tidegate.store.stats import StoreMetrics
from tidegate.telemetry import MetricsPage, configure_logs

log = structlog.get_logger("metrics_agent")

LEAVE_SECONDS = 0.5
END_SECONDS = 1.5
"""For all that ends with the agent, at once: two seconds after SIGTERM it is gone, whatever hangs."""
CLOSE_SECONDS = 0.1


async def serve(settings: AgentSettings) -> None:
    """Watch this node until SIGTERM or SIGINT. Raises ConfigError, and OSError when the metrics port is taken."""
    configure_logs(settings.log_level, settings.log_format)
    url, prefix, topology = _world(settings)
    store = RedisStore(settings.redis_url or url, settings.redis_prefix or prefix)
    gpus = NvmlGpus(settings.interval_ms / 1000)
    gpus.start()
    try:
        await serve_on(store, topology, settings, gpus)
    finally:
        await gpus.stop()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                await store.close()


def _world(settings: AgentSettings) -> tuple[str, str, Topology]:
    """Redis' URL, the keys' prefix and the clusters, as the file says; without a file engines have to be registered."""
    if settings.config is not None:
        file = load(settings.config)
        return file.redis_url, file.redis_prefix, file.topology
    if not settings.engine and settings.engines_dir is None:
        raise ConfigError(
            ["the agent knows no engine: pass --config FILE, --engine CLUSTER=HOST:PORT or --engines-dir"]
        )
    section = RedisSection()
    return section.url, section.prefix, Topology(())


async def serve_on(
    store: Store,
    topology: Topology,
    settings: AgentSettings,
    gpus: GpuReader,
    registry: CollectorRegistry | None = None,
) -> None:
    """`serve` on a given store, which stays open, and a GPU reader, which is stopped at the end.

    Metrics are on `registry`, where one is given. Raises ConfigError for a flag that is wrong, and for a certificate
    of the file that cannot be used.
    """
    fixed = each_once([*targets(topology, settings.node, all_nodes=settings.all_nodes), *read_flags(settings.engine)])
    registry = CollectorRegistry() if registry is None else registry
    service, instruments, clock = Service("agent", registry), Instruments(registry), StoreClock(store)
    StoreMetrics(registry, store)
    tls = EngineTls(topology)
    pages = HttpPages(settings.timeout_ms / 1000, tls_of=tls.of)

    def watcher(target: Target) -> EngineWatcher:
        _warn_of_stranger(topology, target)
        tls.watched(target)
        return _watcher(target, settings, pages, instruments, clock)

    crew = Crew(service, watcher, instruments)
    publisher = _publisher(store, settings, crew, gpus, instruments, clock)
    page = MetricsPage(registry, lambda: trouble(publisher.trouble, crew.watchers, gpus.latest()))
    bound = await page.start(settings.metrics_listen)
    log.info("agent watches", node=settings.node, engines=[t.address for t in fixed], metrics=bound)
    crew.watch(fixed)
    if settings.engines_dir is not None:
        folder = EngineFolder(settings.engines_dir, settings.node)
        service.spawn("engines-dir", FolderFollower(folder, fixed, crew.watch, instruments).run)
    service.spawn("clock", clock.run)
    service.spawn("publish", publisher.run)
    service.spawn("beat", publisher.beat)
    try:
        await service.run_until_stopped()
    finally:
        await _end(_leave(store, settings.node, publisher, crew), gpus.stop(), page.stop(), pages.close())


def _watcher(
    target: Target, settings: AgentSettings, pages: PageSource, instruments: Instruments, clock: StoreClock
) -> EngineWatcher:
    return EngineWatcher(
        target,
        settings.node,
        pages,
        instruments,
        interval_seconds=settings.interval_ms / 1000,
        clock=clock.local,
        random=random.random,
    )


def _publisher(
    store: Store, settings: AgentSettings, crew: Crew, gpus: GpuReader, instruments: Instruments, clock: StoreClock
) -> Publisher:
    return Publisher(
        store,
        settings.node,
        crew,
        gpus,
        instruments,
        clock,
        interval_seconds=settings.interval_ms / 1000,
        sample_ttl_ms=settings.sample_ttl_ms,
    )


def _warn_of_stranger(topology: Topology, target: Target) -> None:
    """Say what of a registration does not match the file, where there is one."""
    cluster = topology.cluster(target.cluster)
    if cluster is None and topology.clusters:
        log.warning("the file has no such cluster: the engine is shown, and gets no traffic", cluster=target.cluster)
    elif cluster is not None and target.kind not in {None, cluster.kind}:
        log.warning("the file says otherwise: its kind counts", cluster=cluster.name, kind=cluster.kind.value)


async def _end(*endings: Coroutine[Any, Any, None]) -> None:
    """All at once: a store that hangs takes nothing of the time that a driver's call has to return, nor the reverse."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(END_SECONDS):
            await asyncio.gather(*endings)


async def _leave(store: Store, node: str, publisher: Publisher, crew: Crew) -> None:
    """Take what was registered along, and say goodbye; unless the store is away."""
    with contextlib.suppress(StoreError, TimeoutError):
        async with asyncio.timeout(LEAVE_SECONDS):
            if departing := crew.departing():
                await publisher.leave(departing)
            await store.leave("agent", node)
