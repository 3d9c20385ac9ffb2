"""Wiring of `tidegate xds`."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final

import structlog
from prometheus_client import CollectorRegistry

from tidegate.domain.errors import ConfigError, StoreError
from tidegate.domain.topology import Topology, WithoutPicker, split_address, split_ports
from tidegate.grpc_health import Health
from tidegate.grpc_tls import ChannelTls, server_watch
from tidegate.grpc_tls_files import TlsFiles, TlsMetrics, TlsWatch
from tidegate.runtime import Service, now_ms
from tidegate.settings.config_file import FileConfig, load
from tidegate.settings.otlp_url import HTTP, parse_otlp_url
from tidegate.settings.services import XdsSettings
from tidegate.store.clock import StoreClock
from tidegate.store.ports import Store
from tidegate.store.redis import RedisStore
from tidegate.store.stats import StoreMetrics
from tidegate.telemetry import MetricsPage, configure_logs
from xds_server import presence
from xds_server.cache import SnapshotCache
from xds_server.compose import Gateway
from xds_server.desired import Collector, OutcomesServer, PickerTls
from xds_server.metrics import ClientStates, XdsMetrics
from xds_server.picker_watch import PickerWatch
from xds_server.publisher import Publisher
from xds_server.resolver import Resolver
from xds_server.resources.names import EXT_PROC_CLUSTER, OTLP_CLUSTER, OUTCOMES_CLUSTER
from xds_server.server import DiscoveryServicer, Streams, start
from xds_server.services import SERVICES

log = structlog.get_logger("xds_server")

LEAVE_SECONDS: Final = 0.5
STOP_GRACE_SECONDS: Final = 0.2

Companion = tuple[str, Callable[[Store, FileConfig, CollectorRegistry], Coroutine[Any, Any, None]]]
"""A name and a coroutine function that shares this process, its store and its file."""


async def serve(settings: XdsSettings, companions: Sequence[Companion] = ()) -> None:
    """Serve Envoys until SIGTERM or SIGINT; run the companions beside.

    Raises ConfigError when the file, a flag or the port is wrong. A store that fails is retried.
    """
    configure_logs(settings.log_level, settings.log_format)
    if settings.config is None:
        raise ConfigError(["xds needs the configuration file: pass --config FILE"])
    file = load(settings.config)
    store = RedisStore(settings.redis_url or file.redis_url, settings.redis_prefix or file.redis_prefix)
    try:
        await serve_on(store, file, settings, companions)
    finally:
        await store.close()


async def serve_on(
    store: Store,
    file: FileConfig,
    settings: XdsSettings,
    companions: Sequence[Companion] = (),
    registry: CollectorRegistry | None = None,
) -> None:
    """`serve` on a given store, which stays open; the metrics on `registry`, where one is given."""
    registry, resolver, cache = CollectorRegistry() if registry is None else registry, Resolver(), SnapshotCache()
    service, metrics = Service("xds", registry), XdsMetrics(registry)
    streams, clock = Streams(metrics), StoreClock(store)
    StoreMetrics(registry, store)
    ClientStates(lambda: streams.status(now_ms()), registry)
    gateway = await gateway_of(file, settings, resolver)
    tls_metrics = TlsMetrics(registry)
    tls = server_watch(settings.tls_cert, settings.tls_key, settings.tls_client_ca, tls_metrics)
    picker_tls = _picker_tls(gateway, settings, tls_metrics)
    picker = PickerWatch(
        gateway.ext_proc_host,
        gateway.ext_proc_port,
        registry,
        tls=picker_tls,
        last_port=gateway.ext_proc_last_port,
    )
    publisher = Publisher(
        gateway=gateway,
        topology=file.topology,
        store=store,
        cache=cache,
        metrics=metrics,
        clock_ms=clock,
        sample_ttl_ms=settings.sample_ttl_ms,
        resolver=resolver,
        picker_away=lambda: picker.away,
        clients_hold_state=streams.any_brings_state,
    )
    page = MetricsPage(registry, lambda: None if cache.snapshot else "nothing to serve yet")
    health = Health(*SERVICES)
    server, listen = await start(settings.listen, DiscoveryServicer(cache, streams, now_ms), health, tls)
    try:
        metrics_listen = await page.start(settings.metrics_listen)
        service.spawn("clock", clock.run)
        service.spawn("publisher", lambda: publisher.run(settings.tick_ms))
        if gateway.without_picker is not WithoutPicker.REFUSE:
            service.spawn("picker", lambda: picker.run(publisher.picker_changed))
        service.spawn("presence", lambda: _beat(store, file.topology, publisher, streams, listen, tls))
        for watch in (tls, picker_tls.watch if picker_tls else None):
            if watch is not None:
                service.spawn(f"certificates_{watch.name}", watch.run)
        for name, companion in companions:
            service.spawn(name, lambda companion=companion: companion(store, file, registry))  # type: ignore[misc]
        log.info("xds serves", listen=listen, metrics=metrics_listen)
        await service.run_until_stopped()
    finally:
        health.drain()
        await server.stop(STOP_GRACE_SECONDS)
        await page.stop()
        await resolver.close()
        await _leave(store)


async def gateway_of(file: FileConfig, settings: XdsSettings, resolver: Resolver) -> Gateway:
    """The gateway's listener, with its host as an IP. Raises ConfigError when it cannot be one."""
    listen = settings.gateway_listen or file.gateway.listen
    host, port = _address("gateway.listen", listen)
    ext_proc_host, ext_proc_port, ext_proc_last_port = _ports("--ext-proc", settings.ext_proc)
    ips = await resolver.addresses([host])
    if host not in ips:
        raise ConfigError([f"gateway.listen: {host} is no address of this machine; name an IP, such as 0.0.0.0"])
    for own in (EXT_PROC_CLUSTER, OUTCOMES_CLUSTER, OTLP_CLUSTER):
        if file.topology.cluster(own) is not None:
            raise ConfigError([f"clusters: the name {own} is taken by Tidegate; choose another"])
    return Gateway(
        listen_host=ips[host],
        listen_port=port,
        max_request_bytes=file.gateway.max_request_bytes,
        expose_routing=file.gateway.expose_routing,
        ext_proc_host=ext_proc_host,
        ext_proc_port=ext_proc_port,
        ext_proc_last_port=ext_proc_last_port,
        ext_proc_tls=_envoys_picker_tls(ext_proc_host, settings),
        cors_origin=file.gateway.cors_origin,
        explain=file.gateway.explain,
        class_header=file.gateway.class_header,
        user_header=file.gateway.user_header,
        version_header=file.gateway.version_header,
        strip_headers=file.gateway.strip_headers,
        without_picker=file.gateway.without_picker,
        outcomes=_outcomes(settings),
        collector=_collector(settings),
        request_ids=settings.request_ids,
    )


def _collector(settings: XdsSettings) -> Collector | None:
    """Whom Envoy tells its spans. Raises ConfigError when Envoy cannot."""
    if settings.otlp_endpoint is None:
        return None
    url = parse_otlp_url(settings.otlp_endpoint, settings.otlp_protocol)
    if url.tls:
        raise ConfigError(
            ["--otlp-endpoint: Envoy's spans go without TLS; name a collector beside it, http://HOST:PORT"]
        )
    path = url.path if settings.otlp_protocol == HTTP else None
    return Collector(host=url.host, port=url.port, path=path, ratio=settings.trace_ratio)


def _outcomes(settings: XdsSettings) -> OutcomesServer | None:
    """Whom Envoy tells how requests ended. Raises ConfigError when the flags do not fit together."""
    if settings.outcomes is None:
        return None
    if settings.outcomes_tls_name is None:
        return OutcomesServer(*_address("--outcomes", settings.outcomes))
    if settings.envoy_secrets is None:
        raise ConfigError(["--outcomes-tls-name needs --envoy-secrets, where Envoy finds whom to trust"])
    tls = PickerTls(
        name=settings.outcomes_tls_name, secrets=settings.envoy_secrets, mutual=settings.outcomes_tls_mutual
    )
    return OutcomesServer(*_address("--outcomes", settings.outcomes), tls)


def _envoys_picker_tls(host: str, settings: XdsSettings) -> PickerTls | None:
    """How Envoy speaks to ext_proc. Raises ConfigError when the flags do not fit together."""
    if (settings.ext_proc_tls_ca is None) != (settings.envoy_secrets is None):
        raise ConfigError(
            ["TLS to ext_proc takes both --ext-proc-tls-ca, for xds itself, and --envoy-secrets, for Envoy"]
        )
    if settings.envoy_secrets is None:
        return None
    name, mutual = settings.ext_proc_tls_name or host, settings.ext_proc_tls_cert is not None
    return PickerTls(name=name, secrets=settings.envoy_secrets, mutual=mutual)


def _picker_tls(gateway: Gateway, settings: XdsSettings, metrics: TlsMetrics) -> ChannelTls | None:
    """How xds itself speaks to ext_proc. Raises ConfigError when a file is wrong."""
    files = TlsFiles("--ext-proc-tls-", settings.ext_proc_tls_cert, settings.ext_proc_tls_key, settings.ext_proc_tls_ca)
    if gateway.ext_proc_tls is None:
        return None
    return ChannelTls(TlsWatch("ext_proc", files, metrics), gateway.ext_proc_tls.name)


def instance_name() -> str:
    """This process among those of its service."""
    return f"{socket.gethostname()}:{os.getpid()}"


def _ports(where: str, text: str) -> tuple[str, int, int]:
    try:
        return split_ports(text)
    except ValueError as exc:
        raise ConfigError([f"{where}: {exc}"]) from exc


def _address(where: str, text: str) -> tuple[str, int]:
    try:
        return split_address(text)
    except ValueError as exc:
        raise ConfigError([f"{where}: {exc}"]) from exc


async def _beat(
    store: Store, topology: Topology, publisher: Publisher, streams: Streams, listen: str, tls: TlsWatch | None
) -> None:
    overdue = presence.Overdue()

    def info() -> dict[str, Any]:
        overdue.look(streams.status(now_ms()))
        about = presence.describe(topology, publisher, streams, listen, now_ms())
        return about | {"tls_not_after_ms": tls and tls.not_after_ms}

    await presence.beat(store, instance_name(), info)


async def _leave(store: Store) -> None:
    with contextlib.suppress(StoreError, TimeoutError):
        await asyncio.wait_for(store.leave(presence.SERVICE, instance_name()), LEAVE_SECONDS)
