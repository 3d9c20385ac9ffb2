"""Wires one engine: settings in, a bound address out."""

from __future__ import annotations

import asyncio
import random
import sys
import time
from typing import Any

from aiohttp import web
from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector

from simulator.engine import DiffusionParams, EngineParams
from simulator.http.driver import Driver
from simulator.http.faults import Fault, FaultKind, Faults
from simulator.http.images import Diffusion
from simulator.http.llm import Llm
from simulator.http.omni_metrics import OmniCollector
from simulator.http.pages import Pages, Probes
from simulator.http.record import Record
from simulator.http.server import Handler, build, diffusion_routes, llm_routes
from simulator.http.traces import TRACED_AS, RequestTraces
from simulator.http.vllm_metrics import VllmCollector
from tidegate import runtime, telemetry, tracing
from tidegate.domain.errors import ConfigError
from tidegate.settings.services import EngineSimSettings
from tidegate.tracing import Spans

_SHUTDOWN_SECONDS = 1.0
_KV_BLOCKS = 4096


class EngineHandle:
    """A running engine. `address` is `host:port`, as bound."""

    def __init__(self, address: str, runner: web.AppRunner, driver: Driver[Any]) -> None:
        self.address, self._runner, self._driver = address, runner, driver

    async def stop(self) -> None:
        """Release the port; requests under way get a second to end."""
        await self._runner.cleanup()
        self._driver.stop()


async def start(
    settings: EngineSimSettings, registry: CollectorRegistry | None = None, spans: Spans | None = None
) -> EngineHandle:
    """Serve in this event loop. `registry` (its own by default) gets the engine's families, `spans` its requests.

    Raises ConfigError when the settings make no engine or the port is taken.
    """
    registry = registry or CollectorRegistry()
    routes, driver, length = _model(settings, registry, spans)
    for collector in (ProcessCollector, PlatformCollector, GCCollector):
        collector(registry=registry)
    faults, record = _faults(settings), Record(settings.record_requests)
    pages = Pages(settings.model, length, registry, lambda: driver.version)
    identity = [""]
    app = build(routes, pages, Probes(faults, record), faults, record, identity, traced=spans is not None)
    runner = web.AppRunner(
        app,
        access_log=None,
        handler_cancellation=True,  # a client that leaves frees its blocks
        auto_decompress=False,  # recorded bodies are those that came over the wire
        shutdown_timeout=_SHUTDOWN_SECONDS,
    )
    await runner.setup()
    try:
        await web.TCPSite(runner, settings.host, settings.port, backlog=1024).start()
    except OSError as exc:
        await runner.cleanup()
        raise ConfigError([f"engine-sim cannot listen on {settings.host}:{settings.port}: {exc}"]) from exc
    host, port = runner.addresses[0][:2]
    identity[0] = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return EngineHandle(identity[0], runner, driver)


async def serve(settings: EngineSimSettings) -> None:
    """Run `tidegate engine-sim` until SIGTERM or SIGINT. Prints one line with its address once it listens."""
    telemetry.configure_logs(settings.log_level, settings.log_format)
    registry = CollectorRegistry()  # of the process; the engine's own page holds what a real engine's does
    service = runtime.Service("engine-sim", registry)
    page = telemetry.MetricsPage(registry, lambda: None)
    instance = f"{settings.host}:{settings.port}"
    spans = tracing.open_spans(settings.otlp_endpoint, settings.otlp_protocol, TRACED_AS, instance, registry)
    handle = await start(settings, spans=spans)
    await page.start(settings.metrics_listen)
    stopped = asyncio.create_task(service.run_until_stopped())
    await asyncio.sleep(0)  # signals are handled before anyone learns the address
    sys.stdout.write(f"engine-sim listens on {handle.address}\n")
    sys.stdout.flush()
    await stopped
    await page.stop()
    await handle.stop()
    if spans is not None:
        await spans.stop()


def _model(
    settings: EngineSimSettings, registry: CollectorRegistry, spans: Spans | None
) -> tuple[dict[str, Handler], Driver[Any], int | None]:
    """The engine of the wanted kind: its routes, its driver and its context length."""
    created = time.time()
    try:
        _check(settings)
        if settings.kind == "diffusion":
            params = DiffusionParams(max_batch=settings.diffusion_batch, speed=settings.speed)
            diffusion = Diffusion(params, settings.model, settings.time_scale)
            registry.register(OmniCollector(diffusion, created))
            return diffusion_routes(diffusion), diffusion.driver, None
        llm = Llm(_engine_params(settings), settings.model, settings.seed, settings.time_scale)
    except ValueError as exc:
        raise ConfigError([f"engine-sim: {exc}"]) from exc
    llm.traces = None if spans is None else RequestTraces(spans, settings.model[0])
    registry.register(VllmCollector(llm, created))
    return llm_routes(llm), llm.driver, settings.max_model_len


def _check(settings: EngineSimSettings) -> None:
    if settings.kind not in ("llm", "diffusion"):
        raise ValueError(f"kind {settings.kind!r} is neither llm nor diffusion")
    if not settings.model or settings.time_scale <= 0:
        raise ValueError("there is at least one model, and time_scale is above 0")
    if settings.fault not in set(FaultKind) - {FaultKind.DIE}:
        raise ValueError(f"fault {settings.fault!r} is none of none, error, hang, loading")


def _engine_params(settings: EngineSimSettings) -> EngineParams:
    one_sequence = 1 - (-settings.max_model_len // max(1, settings.block_size))  # and the null block
    return EngineParams(
        kv_blocks=max(_KV_BLOCKS, one_sequence) if settings.kv_blocks is None else settings.kv_blocks,
        block_size=settings.block_size,
        max_num_seqs=settings.max_num_seqs,
        max_num_batched_tokens=settings.max_num_batched_tokens,
        max_model_len=settings.max_model_len,
        speed=settings.speed,
    )


def _faults(settings: EngineSimSettings) -> Faults:
    clock = asyncio.get_running_loop().time
    rng = random.Random(settings.seed)  # noqa: S311 - which requests meet a fault
    loading_until = clock() + settings.loading_seconds if settings.loading_seconds > 0 else 0.0
    return Faults(Fault(FaultKind(settings.fault)), rng, clock, loading_until)
