"""Wiring of `tidegate ext-proc`."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from random import getrandbits
from typing import Final

import structlog
from prometheus_client import CollectorRegistry

from ext_proc.buffered import Reader
from ext_proc.decide import Decider
from ext_proc.faults import FaultBook
from ext_proc.feed import SERVICE, SHARED, FleetFeed
from ext_proc.fleet_metrics import FleetMetrics
from ext_proc.flow.gates import Gates
from ext_proc.flow.holds import Holds
from ext_proc.flow.metrics import QueueMetrics
from ext_proc.flow.sample_log import DecisionLog
from ext_proc.flow.tuning import Tuning
from ext_proc.health import Health
from ext_proc.memory import keep_freed_memory
from ext_proc.metrics import ExtProcMetrics
from ext_proc.mix import MixBook
from ext_proc.outputs import OUTPUTS, OutputBook, OutputMetrics
from ext_proc.recent import RecentRequests
from ext_proc.route import Routes
from ext_proc.session import Session
from ext_proc.shared import SharedPicks, SharedPicksMetrics
from ext_proc.splits import SplitBook, SplitMetrics, Versions
from ext_proc.tokens import TokenBook
from ext_proc.transport.grpcio import GrpcioServer
from ext_proc.transport.wire import WireServer
from ext_proc.view import FleetView
from ext_proc.worker import WorkerOrder, say_ready
from tidegate.domain.errors import ConfigError, StoreError
from tidegate.domain.flow.classes import Classes
from tidegate.domain.trace_context import TraceContext
from tidegate.grpc_tls import server_watch
from tidegate.grpc_tls_files import TlsMetrics, TlsWatch
from tidegate.runtime import Service
from tidegate.settings.config_file import FileConfig, load
from tidegate.settings.services import ExtProcSettings
from tidegate.store.clock import StoreClock
from tidegate.store.nudged import Nudged
from tidegate.store.ports import Store
from tidegate.store.redis import RedisStore
from tidegate.store.stats import StoreMetrics
from tidegate.telemetry import MetricsPage, configure_logs
from tidegate.tracing import Spans, open_spans

log = structlog.get_logger("ext_proc")

BEAT_SECONDS = 1.0
BEAT_TTL_MS = 3000
DRAIN_SECONDS = 0.75
"""From the word that this instance stops until it does: two of Envoy's health checks, and some."""
GRACE_SECONDS = 2.0
TRACED_AS = "tidegate-ext-proc"
"""`service.name` of its spans, unless OTEL_SERVICE_NAME says otherwise."""
TRANSPORTS: Final[Mapping[str, type[GrpcioServer | WireServer]]] = {"wire": WireServer, "grpcio": GrpcioServer}


async def serve(settings: ExtProcSettings, worker: WorkerOrder | None = None) -> None:
    """Answer Envoy until SIGTERM or SIGINT; as one of several workers where `worker` is given.

    Raises ConfigError, also when a port is taken.
    """
    configure_logs(settings.log_level, settings.log_format)
    keep_freed_memory()
    if settings.config is None:
        raise ConfigError(["ext-proc needs the configuration file: pass --config FILE"])
    file = load(settings.config)
    store = RedisStore(settings.redis_url or file.redis_url, settings.redis_prefix or file.redis_prefix)
    try:
        await serve_on(store, file, settings, worker)
    except OSError as exc:
        raise ConfigError([str(exc)]) from exc
    finally:
        await store.close()


async def serve_on(
    store: Store,
    file: FileConfig,
    settings: ExtProcSettings,
    worker: WorkerOrder | None = None,
    registry: CollectorRegistry | None = None,
) -> None:
    """`serve` on a given store, which stays open; the metrics on `registry`, where one is given."""
    registry = CollectorRegistry() if registry is None else registry
    service, health = Service("ext_proc", registry), Health()
    parts = _parts(store, file, settings, registry)
    recent = RecentRequests() if settings.debug_requests else None
    spans = open_spans(settings.otlp_endpoint, settings.otlp_protocol, TRACED_AS, instance_name(), registry)
    decider = _decider(parts, file, settings, recent, spans)
    tls = server_watch(settings.tls_cert, settings.tls_key, settings.tls_client_ca, TlsMetrics(registry))
    new_server = _new_server(settings, file, decider, health, parts.metrics, tls, traces=spans is not None)
    listens = {"listen": settings.listen, **({"own": worker.own_listen} if worker else {})}
    servers = {name: new_server(reuse_port=worker is not None and name == "listen") for name in listens}
    page = MetricsPage(
        registry,
        lambda: "stopping" if service.stopping.is_set() else None,
        {} if recent is None else {"/debug/last": recent.last},
    )
    info: dict[str, str | None] = {"metrics": await page.start(settings.metrics_listen)}
    info |= await _listen(servers, listens)
    _start_tasks(service, store, file, settings, parts, info, tls)
    log.info("ext_proc serves", **info)
    if worker is not None:
        say_ready(info)
    try:
        await service.run_until_stopped()
        health.drain()
        await asyncio.sleep(DRAIN_SECONDS)
    finally:
        parts.gates.stop()
        await asyncio.gather(*(server.stop(GRACE_SECONDS) for server in servers.values()))
        await page.stop()
        if spans is not None:
            await spans.stop()
        await _leave(store)


@dataclass(frozen=True, slots=True)
class _Parts:
    """What is known here and what is done by it, apart from sockets and requests."""

    clock: StoreClock
    shared: SharedPicks
    fleet: FleetView
    tokens: TokenBook
    outputs: OutputBook
    gates: Gates
    mix: MixBook
    holds: Holds
    splits: SplitBook
    versions: Versions
    metrics: ExtProcMetrics


def _parts(store: Store, file: FileConfig, settings: ExtProcSettings, registry: CollectorRegistry) -> _Parts:
    """All of them, their metrics registered."""
    clock = StoreClock(store)
    shared = SharedPicks(store, instance_name(), clock)
    fleet = FleetView(file.topology, settings.sample_ttl_ms, shared.record)
    tokens, outputs = TokenBook(fleet.names), OutputBook(fleet.names)
    gates, splits = Gates(fleet, clock), SplitBook(file.topology)
    versions = Versions(
        splits,
        lambda name: fleet.cluster(name).serves(clock()),
        lambda: getrandbits(64),
        user_header=file.gateway.user_header,
        by_name=file.gateway.version_header,
    )
    FleetMetrics(registry, fleet, clock)
    StoreMetrics(registry, store)
    SharedPicksMetrics(registry, shared)
    OutputMetrics(registry, outputs)
    metrics = ExtProcMetrics(registry, tokens)
    QueueMetrics(registry, gates)
    SplitMetrics(registry, splits)
    mix, holds = MixBook(clock), Holds(fleet.names, clock)
    return _Parts(clock, shared, fleet, tokens, outputs, gates, mix, holds, splits, versions, metrics)


def _decider(
    parts: _Parts, file: FileConfig, settings: ExtProcSettings, recent: RecentRequests | None, spans: Spans | None
) -> Decider:
    return Decider(
        Routes(file.topology, parts.fleet.cluster_listing, parts.tokens.ratio_of, parts.versions),
        parts.fleet,
        parts.tokens,
        parts.metrics,
        max_request_bytes=file.gateway.max_request_bytes,
        clock=parts.clock,
        recent=recent,
        gates=parts.gates,
        classes=Classes(file.topology.classes, by_header=file.gateway.class_header),
        outputs=parts.outputs,
        explain=file.gateway.explain,
        decisions=DecisionLog(log, settings.log_decisions) if settings.log_decisions else None,
        mix=parts.mix,
        holds=parts.holds,
        spans=spans,
    )


def _new_server(
    settings: ExtProcSettings,
    file: FileConfig,
    decider: Decider,
    health: Health,
    metrics: ExtProcMetrics,
    tls: TlsWatch | None,
    *,
    traces: bool,
) -> Callable[..., GrpcioServer | WireServer]:
    """What makes a server of the transport that was asked for; `reuse_port` is left to say."""
    reader = Reader()

    def traced(trace: TraceContext) -> Session:
        return Session(partial(decider.decide, trace=trace), reader)

    return partial(
        TRANSPORTS[settings.transport],
        lambda: Session(decider.decide, reader),
        health,
        metrics,
        max_body_bytes=file.gateway.max_request_bytes,
        tls=tls,
        traced=traced if traces else None,
    )


def instance_name() -> str:
    """This process among those of its service."""
    return f"{socket.gethostname()}:{os.getpid()}"


async def _listen(servers: Mapping[str, GrpcioServer | WireServer], listens: Mapping[str, str]) -> dict[str, str]:
    """Start each server; the addresses. Raises OSError when one is taken, with all of them stopped."""
    bound: dict[str, str] = {}
    try:
        for name, listen in listens.items():
            bound[name] = await servers[name].start(listen)
    except OSError:
        await asyncio.gather(*(servers[name].stop(0) for name in bound))
        raise
    return bound


def _start_tasks(
    service: Service,
    store: Store,
    file: FileConfig,
    settings: ExtProcSettings,
    parts: _Parts,
    info: Mapping[str, str | None],
    tls: TlsWatch | None,
) -> None:
    fleet, gates, tick_seconds = parts.fleet, parts.gates, settings.tick_ms / 1000
    feed = FleetFeed(fleet, store, tick_ms=settings.tick_ms, clock=parts.clock, changed=gates.changed)
    service.spawn("clock", parts.clock.run)
    service.spawn("samples", feed.follow_samples)
    service.spawn("decisions", feed.follow_decisions)
    service.spawn("nudges", feed.follow_nudges)
    service.spawn("names", feed.follow_names)
    service.spawn("queues", gates.run)
    service.spawn("tunes", lambda: Tuning(fleet, gates).follow(store, tick_seconds))
    service.spawn("tokens", lambda: feed.follow_tokens(parts.tokens, parts.outputs, instance_name()))
    service.spawn("presence", lambda: _beat(store, parts, info, tls))
    if tls is not None:
        service.spawn("certificates", tls.run)
    service.spawn("mix", lambda: parts.mix.tell(store, instance_name()))
    service.spawn("faults", lambda: FaultBook(file.topology, fleet, parts.clock).follow(store))
    _start_sharing(service, parts.shared, fleet)
    _follow_orders(service, store, parts.splits, parts.holds, tick_seconds)


async def _beat(store: Store, parts: _Parts, info: Mapping[str, str | None], tls: TlsWatch | None) -> None:
    """Say each second that this instance lives, and what it is doing."""
    while True:
        told = {
            **info,
            SHARED: parts.tokens.shared(),
            OUTPUTS: parts.outputs.shared(),
            "tls_not_after_ms": tls and tls.not_after_ms,
            "queues": parts.gates.report(parts.clock()),
            "unserved_at_ms": parts.fleet.unserved(),
            "silent_versions": parts.versions.silent(),
        }
        await store.beat(SERVICE, instance_name(), told, ttl_ms=BEAT_TTL_MS)
        await asyncio.sleep(BEAT_SECONDS)


def _follow_orders(service: Service, store: Store, splits: SplitBook, holds: Holds, tick_seconds: float) -> None:
    splits_nudged, acts_nudged = Nudged(store), Nudged(store)
    service.spawn("splits", lambda: splits.follow(store, splits_nudged, tick_seconds))
    service.spawn("splits nudges", splits_nudged.listen)
    service.spawn("acts", lambda: holds.follow(store, acts_nudged, tick_seconds))
    service.spawn("acts nudges", acts_nudged.listen)


def _start_sharing(service: Service, shared: SharedPicks, fleet: FleetView) -> None:
    service.spawn("picks told", shared.publish)
    service.spawn("picks heard", lambda: shared.follow(fleet.sent_elsewhere))
    service.spawn("picks company", lambda: shared.meet(fleet.shares_with))


async def _leave(store: Store) -> None:
    try:
        await store.leave(SERVICE, instance_name())
    except StoreError as exc:
        log.warning("presence not withdrawn", error=str(exc))
