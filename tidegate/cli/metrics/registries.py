"""The registry of each service, wired by its own app on a store in memory, and torn down again."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import asynccontextmanager
from types import MappingProxyType
from typing import Any, Final

from prometheus_client import CollectorRegistry

from ext_proc import app as ext_proc
from ext_proc.workers import parent
from metrics_agent import app as agent
from metrics_agent.gpu.process import NvmlGpus
from outcomes import app as outcomes
from simulator import app as simulator
from tidegate.cli.companions import companions_of_xds
from tidegate.cli.metrics.families import Family, families
from tidegate.domain.errors import TidegateError
from tidegate.domain.topology import Topology
from tidegate.runtime import Service, now_ms
from tidegate.settings.config_file import FileConfig, parse
from tidegate.settings.services import (
    AgentSettings,
    EngineSimSettings,
    ExtProcSettings,
    OutcomesSettings,
    XdsSettings,
)
from tidegate.store.memory import MemoryStore
from xds_server import app as xds

ANY: Final = "127.0.0.1:0"
NOBODY: Final = "http://127.0.0.1:9"
"""No span is made, so that none is sent."""
PATIENCE_SECONDS: Final = 20.0
FILE: Final = """
clusters:
  - {name: chat, models: [phi-3], endpoints: [{address: "127.0.0.1:9"}]}
"""
PRESENT: Final = ("xds", "controller", "ext_proc", "outcomes", "agent")
"""Each beats once everything that it has is registered."""

HOOKS: Final = "hooks"
SERVICES: Final = ("xds", "ext-proc", "outcomes", "agent")

Found = Mapping[str, Mapping[str, Family]]
"""Service → name → family."""


async def found() -> Found:
    """Every family of every service. Raises TidegateError when one does not come up."""
    async with running() as registries:
        services = {name: families(registry) for name, registry in registries.items()}
    return {**services, "ext-proc --workers": _of_workers(services["ext-proc"]), **await _engines()}


@asynccontextmanager
async def running(pages: Mapping[str, str] = MappingProxyType({})) -> AsyncIterator[Mapping[str, CollectorRegistry]]:
    """All services in this event loop, until the block ends. `pages` are addresses for metrics, by service.

    Raises TidegateError when one does not come up.
    """
    store, file = MemoryStore(now_ms), parse(FILE, "metrics.yaml")
    registries = {name: CollectorRegistry() for name in SERVICES}
    tasks = [asyncio.create_task(one) for one in _services(store, file, registries, pages)]
    try:
        await _all_there(store, registries["xds"], tasks)
        yield registries
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _services(
    store: MemoryStore, file: FileConfig, registries: Mapping[str, CollectorRegistry], pages: Mapping[str, str]
) -> list[Coroutine[Any, Any, None]]:
    of_xds = XdsSettings(listen=ANY, hooks_listen=ANY, metrics_listen=pages.get("xds"))
    of_ext_proc = ExtProcSettings(listen=ANY, metrics_listen=pages.get("ext-proc"), otlp_endpoint=NOBODY)
    of_outcomes = OutcomesSettings(listen=ANY, metrics_listen=pages.get("outcomes"))
    of_agent = AgentSettings(node="node", metrics_listen=pages.get("agent"))
    return [
        xds.serve_on(store, file, of_xds, companions_of_xds(of_xds), registries["xds"]),
        ext_proc.serve_on(store, file, of_ext_proc, registry=registries["ext-proc"]),
        outcomes.serve_on(store, file, of_outcomes, registries["outcomes"]),
        agent.serve_on(store, Topology(()), of_agent, NvmlGpus(1.0), registries["agent"]),
    ]


async def _all_there(store: MemoryStore, of_xds: CollectorRegistry, tasks: list[asyncio.Task[None]]) -> None:
    """Until each service beats, and the hooks are there. Raises what a service raised, or TidegateError."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not (set(PRESENT) <= (await store.present()).keys() and _has(of_xds, HOOKS)):
                for task in tasks:
                    if task.done():
                        task.result()
                await asyncio.sleep(0.01)
            return
    raise TidegateError(f"not every service came up within {PATIENCE_SECONDS:.0f} s")


def _has(registry: CollectorRegistry, part: str) -> bool:
    return any(f"_{part}_" in name for name in families(registry))


def _of_workers(each: Mapping[str, Family]) -> Mapping[str, Family]:
    """What the parent of several workers has beside what each of them has."""
    registry = CollectorRegistry()
    parent([], registry)
    return {name: family for name, family in families(registry).items() if name not in each}


async def _engines() -> Found:
    """The simulated engine's process, and its two kinds of engine page."""
    process = CollectorRegistry()
    Service("engine-sim", process)
    engines: dict[str, CollectorRegistry] = {}
    for kind in ("llm", "diffusion"):
        engines[kind] = CollectorRegistry()
        engine = await simulator.start(EngineSimSettings(port=0, kind=kind), engines[kind])
        await engine.stop()
    pages = {f"engine-sim --kind {kind}": families(registry) for kind, registry in engines.items()}
    return {"engine-sim": families(process), **pages}
