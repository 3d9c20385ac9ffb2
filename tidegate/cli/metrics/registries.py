"""The registry of each service, wired by its own app on a store in memory, and torn down again."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine, Mapping
from typing import Any, Final

from prometheus_client import CollectorRegistry

from controller.app import control
from ext_proc import app as ext_proc
from ext_proc.workers import parent
from metrics_agent import app as agent
from metrics_agent.gpu.process import NvmlGpus
from outcomes import app as outcomes
from simulator import app as simulator
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
from tidegate.store.ports import Store
from xds_server import app as xds

ANY: Final = "127.0.0.1:0"
PATIENCE_SECONDS: Final = 20.0
FILE: Final = """
clusters:
  - {name: chat, models: [phi-3], endpoints: [{address: "127.0.0.1:9"}]}
"""
PRESENT: Final = ("xds", "controller", "ext_proc", "outcomes", "agent")
"""Each beats once everything that it has is registered."""

Found = Mapping[str, Mapping[str, Family]]
"""Service → name → family."""


async def found() -> Found:
    """Every family of every service. Raises TidegateError when one does not come up."""
    store, file = MemoryStore(now_ms), parse(FILE, "metrics.yaml")
    registries = {name: CollectorRegistry() for name in ("xds", "ext-proc", "outcomes", "agent")}
    tasks = [asyncio.create_task(one) for one in _services(store, file, registries)]
    try:
        await _all_present(store, tasks)
        services = {name: families(registry) for name, registry in registries.items()}
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return {**services, "ext-proc --workers": _of_workers(services["ext-proc"]), **await _engines()}


def _services(
    store: MemoryStore, file: FileConfig, registries: Mapping[str, CollectorRegistry]
) -> list[Coroutine[Any, Any, None]]:
    of_xds = XdsSettings(listen=ANY)

    def controller(store: Store, file: FileConfig, registry: CollectorRegistry) -> Coroutine[Any, Any, None]:
        return control(store, file, of_xds, registry)

    return [
        xds.serve_on(store, file, of_xds, [("controller", controller)], registries["xds"]),
        ext_proc.serve_on(store, file, ExtProcSettings(listen=ANY), registry=registries["ext-proc"]),
        outcomes.serve_on(store, file, OutcomesSettings(listen=ANY), registries["outcomes"]),
        agent.serve_on(store, Topology(()), AgentSettings(node="node"), NvmlGpus(1.0), registries["agent"]),
    ]


async def _all_present(store: MemoryStore, tasks: list[asyncio.Task[None]]) -> None:
    """Until each service beats. Raises what a service raised, or TidegateError when time is over."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not set(PRESENT) <= (await store.present()).keys():
                for task in tasks:
                    if task.done():
                        task.result()
                await asyncio.sleep(0.01)
            return
    raise TidegateError(f"not every service came up within {PATIENCE_SECONDS:.0f} s")


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
