"""Wiring of `tidegate outcomes`."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Mapping
from typing import Any

import structlog
from prometheus_client import CollectorRegistry

from outcomes.book import Book
from outcomes.page import Page, steady_ms
from outcomes.server import ACCESS_LOG, AccessLogs, start
from outcomes.versions_page import VersionsPage
from tidegate.domain.errors import ConfigError, StoreError
from tidegate.domain.flow.classes import Classes
from tidegate.domain.outcomes.report import models_seen
from tidegate.domain.outcomes.slo import Spans
from tidegate.grpc_health import Health
from tidegate.grpc_tls import server_watch
from tidegate.grpc_tls_files import TlsMetrics, TlsWatch
from tidegate.runtime import Service, now_ms
from tidegate.settings.config_file import FileConfig, load
from tidegate.settings.services import OutcomesSettings
from tidegate.store.ports import Store
from tidegate.store.redis import RedisStore
from tidegate.store.stats import StoreMetrics
from tidegate.telemetry import MetricsPage, configure_logs

log = structlog.get_logger("outcomes")

SERVICE = "outcomes"
BEAT_SECONDS = 1.0
BEAT_TTL_MS = 3000
REPORT_TTL_MS = 5000
"""How long readers count what an instance told that has gone silent since."""
DRAIN_SECONDS = 0.75
GRACE_SECONDS = 1.0


async def serve(settings: OutcomesSettings) -> None:
    """Listen to Envoys until SIGTERM or SIGINT. Raises ConfigError, also when a port is taken."""
    configure_logs(settings.log_level, settings.log_format)
    if settings.config is None:
        raise ConfigError(["outcomes needs the configuration file: pass --config FILE"])
    file = load(settings.config)
    store = RedisStore(settings.redis_url or file.redis_url, settings.redis_prefix or file.redis_prefix)
    try:
        await serve_on(store, file, settings)
    except OSError as exc:
        raise ConfigError([str(exc)]) from exc
    finally:
        await store.close()


async def serve_on(
    store: Store, file: FileConfig, settings: OutcomesSettings, registry: CollectorRegistry | None = None
) -> None:
    """`serve` on a given store, which stays open. A store that fails is retried; counting goes on meanwhile.

    Metrics are on `registry`, where one is given.
    """
    registry = CollectorRegistry() if registry is None else registry
    service, topology = Service(SERVICE, registry), file.topology
    StoreMetrics(registry, store)
    slos = {slo.model: slo for slo in topology.slos}
    book = Book(
        steady_ms,
        models=topology.names,
        classes=Classes(topology.classes).names,
        slos=slos.values(),
        split_models=topology.split_models,
        run=f"{instance_name()}@{now_ms()}",
    )
    logs, health = AccessLogs(book.add), Health(ACCESS_LOG)
    reporter = Reporter(store, book, list(slos), settings.tick_ms)
    Page(registry, book, logs, slos, lambda: reporter.spans)
    VersionsPage(registry, book)
    tls = server_watch(settings.tls_cert, settings.tls_key, settings.tls_client_ca, TlsMetrics(registry))
    page = MetricsPage(registry, lambda: "stopping" if service.stopping.is_set() else None)
    server, listen = await start(settings.listen, logs, health, tls)
    try:
        metrics_listen = await page.start(settings.metrics_listen)
        service.spawn("reports", reporter.run)
        service.spawn("presence", lambda: _beat(store, logs, listen, tls))
        if tls is not None:
            service.spawn("certificates", tls.run)
        log.info("outcomes serves", listen=listen, metrics=metrics_listen)
        await service.run_until_stopped()
        health.drain()
        await asyncio.sleep(DRAIN_SECONDS)
    finally:
        await server.stop(GRACE_SECONDS)
        await page.stop()
        await _leave(store)


class Reporter:
    """Tells the store what the book holds, and keeps what all instances told of the objectives."""

    def __init__(self, store: Store, book: Book, models: list[str], tick_ms: int) -> None:
        self._store, self._book, self._models, self._tick_seconds = store, book, models, tick_ms / 1000
        self.spans: Mapping[str, Spans] = {}

    async def run(self) -> None:
        """Tell, and look, at each tick, until cancelled. Raises StoreError."""
        while True:
            await self.tick()
            await asyncio.sleep(self._tick_seconds)

    async def tick(self) -> None:
        """Tell once, and look where there are objectives."""
        await self._store.tell_outcomes(instance_name(), self._book.report(), ttl_ms=REPORT_TTL_MS)
        if self._models:
            self.spans = models_seen(await self._store.outcomes((), self._models))


def instance_name() -> str:
    """This process among those of its service."""
    return f"{socket.gethostname()}:{os.getpid()}"


def about(logs: AccessLogs, listen: str, tls: TlsWatch | None) -> dict[str, Any]:
    """What an instance tells of itself: which Envoys it hears, and since it began what it counted."""
    return {
        "listen": listen,
        "envoys": sorted(node for node, streams in logs.nodes.items() if streams > 0),
        "streams": logs.streams,
        "counted": logs.counted,
        "unreadable": logs.unreadable,
        "tls_not_after_ms": tls and tls.not_after_ms,
    }


async def _beat(store: Store, logs: AccessLogs, listen: str, tls: TlsWatch | None) -> None:
    while True:
        await store.beat(SERVICE, instance_name(), about(logs, listen, tls), ttl_ms=BEAT_TTL_MS)
        await asyncio.sleep(BEAT_SECONDS)


async def _leave(store: Store) -> None:
    try:
        await store.leave(SERVICE, instance_name())
    except StoreError as exc:
        log.warning("presence not withdrawn", error=str(exc))
