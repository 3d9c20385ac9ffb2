"""Wiring of `tidegate agent`."""

from __future__ import annotations

import asyncio
import contextlib
import random

import structlog
from prometheus_client import CollectorRegistry

from metrics_agent.gpu import GpuReader
from metrics_agent.gpu.process import NvmlGpus
from metrics_agent.instruments import Instruments
from metrics_agent.publisher import Publisher
from metrics_agent.scrape.http import HttpPages, PageSource
from metrics_agent.scrape.watcher import EngineWatcher
from metrics_agent.targets import Target, targets
from tidegate.domain.errors import ConfigError, StoreError
from tidegate.domain.sample import Status
from tidegate.domain.topology import Topology
from tidegate.runtime import Service, now_ms
from tidegate.settings.config_file import load
from tidegate.settings.services import AgentSettings
from tidegate.store.ports import Store
from tidegate.store.redis import RedisStore
from tidegate.telemetry import MetricsPage, configure_logs

log = structlog.get_logger("metrics_agent")

LEAVE_SECONDS = 0.5


async def serve(settings: AgentSettings) -> None:
    """Watch this node until SIGTERM or SIGINT. Raises ConfigError, and OSError when the metrics port is taken."""
    configure_logs(settings.log_level, settings.log_format)
    if settings.config is None:
        raise ConfigError(["the agent needs the configuration file: pass --config FILE"])
    file = load(settings.config)
    store = RedisStore(settings.redis_url or file.redis_url, settings.redis_prefix or file.redis_prefix)
    gpus = NvmlGpus(settings.interval_ms / 1000)
    gpus.start()
    try:
        await serve_on(store, file.topology, settings, gpus)
    finally:
        await gpus.stop()
        await store.close()


async def serve_on(store: Store, topology: Topology, settings: AgentSettings, gpus: GpuReader) -> None:
    """`serve` on a given store and GPU reader, which stay open."""
    registry = CollectorRegistry()
    service, instruments = Service("agent", registry), Instruments(registry)
    pages = HttpPages(settings.timeout_ms / 1000)
    mine = targets(topology, settings.node, all_nodes=settings.all_nodes)
    watchers = [_watcher(target, settings, pages, instruments) for target in mine]
    publisher = _publisher(store, settings, watchers, gpus, instruments)
    page = MetricsPage(registry, lambda: _trouble(publisher, watchers))
    bound = await page.start(settings.metrics_listen)
    log.info("agent watches", node=settings.node, engines=[t.address for t in mine], metrics=bound)
    for watcher in watchers:
        service.spawn(f"scrape {watcher.target.address}", watcher.run)
    service.spawn("publish", publisher.run)
    service.spawn("beat", publisher.beat)
    try:
        await service.run_until_stopped()
    finally:
        await page.stop()
        await pages.close()
        await _leave(store, settings.node)


def _watcher(target: Target, settings: AgentSettings, pages: PageSource, instruments: Instruments) -> EngineWatcher:
    return EngineWatcher(
        target,
        settings.node,
        pages,
        instruments,
        interval_seconds=settings.interval_ms / 1000,
        clock=now_ms,
        random=random.random,
    )


def _publisher(
    store: Store,
    settings: AgentSettings,
    watchers: list[EngineWatcher],
    gpus: GpuReader,
    instruments: Instruments,
) -> Publisher:
    return Publisher(
        store,
        settings.node,
        watchers,
        gpus,
        instruments,
        interval_seconds=settings.interval_ms / 1000,
        sample_ttl_ms=settings.sample_ttl_ms,
        clock=now_ms,
    )


def _trouble(publisher: Publisher, watchers: list[EngineWatcher]) -> str | None:
    """Well while either half works: samples reach the store, or engines are read."""
    if publisher.trouble is None:
        return None
    reached = any(w.latest is not None and w.latest.status is not Status.UNREACHABLE for w in watchers)
    return None if reached else publisher.trouble


async def _leave(store: Store, node: str) -> None:
    """Say goodbye, unless the store is away."""
    with contextlib.suppress(StoreError, TimeoutError):
        async with asyncio.timeout(LEAVE_SECONDS):
            await store.leave("agent", node)
