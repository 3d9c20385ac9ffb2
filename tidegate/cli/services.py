"""Subcommands that run one service. Each is a settings class and the coroutine that serves it."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import typer

from tidegate.domain.errors import ConfigError
from tidegate.runtime import run
from tidegate.settings.flags import command
from tidegate.settings.services import (
    AgentSettings,
    EngineSimSettings,
    ExtProcSettings,
    OutcomesSettings,
    ServiceSettings,
    XdsSettings,
)

DEFAULT_CONFIG = Path("tidegate.yaml")

S = TypeVar("S", bound=ServiceSettings)


def _with_config(settings: S) -> S:
    """The named file, else `tidegate.yaml` of this folder."""
    if settings.config is None and DEFAULT_CONFIG.exists():
        return replace(settings, config=DEFAULT_CONFIG)
    if settings.config is None:
        raise ConfigError(
            [f"name the configuration file: --config FILE, or TIDEGATE_{settings.SERVICE.upper()}_CONFIG"]
        )
    return settings


def xds(settings: XdsSettings) -> None:
    """Serve xDS to Envoys, with the controller in the same process."""
    from controller.hooks.app import token_for  # noqa: PLC0415 - a service loads what it needs alone
    from tidegate.cli.companions import companions_of_xds  # noqa: PLC0415
    from xds_server.app import serve  # noqa: PLC0415

    token_for(settings)
    _run(lambda: serve(_with_config(settings), companions_of_xds(settings)))


def ext_proc(settings: ExtProcSettings) -> None:
    """Read each request and choose its cluster and replica."""
    from ext_proc.app import serve  # noqa: PLC0415
    from ext_proc.workers import serve_workers  # noqa: PLC0415

    _run(lambda: (serve if settings.workers == 1 else serve_workers)(_with_config(settings)))


def outcomes(settings: OutcomesSettings) -> None:
    """Count how requests ended, as Envoy saw it."""
    from outcomes.app import serve  # noqa: PLC0415

    _run(lambda: serve(_with_config(settings)))


def agent(settings: AgentSettings) -> None:
    """Publish the state of this node's engines and GPUs."""
    from metrics_agent.app import serve  # noqa: PLC0415

    registers = bool(settings.engine or settings.engines_dir)
    alone = registers and settings.config is None and not DEFAULT_CONFIG.exists()
    _run(lambda: serve(settings if alone else _with_config(settings)))


def engine_sim(settings: EngineSimSettings) -> None:
    """Run a simulated engine with an OpenAI API and vLLM's metrics."""
    from simulator.app import serve  # noqa: PLC0415

    _run(lambda: serve(settings))


def _run(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    run(main)


def register(app: typer.Typer) -> None:
    """Add the service subcommands."""
    app.command("xds", help=xds.__doc__)(command(XdsSettings, xds))
    app.command("ext-proc", help=ext_proc.__doc__)(command(ExtProcSettings, ext_proc))
    app.command("outcomes", help=outcomes.__doc__)(command(OutcomesSettings, outcomes))
    app.command("agent", help=agent.__doc__)(command(AgentSettings, agent))
    app.command("engine-sim", help=engine_sim.__doc__)(command(EngineSimSettings, engine_sim))
