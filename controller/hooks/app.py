"""Wiring of the hooks, which run in the process of `tidegate xds`."""

from __future__ import annotations

import asyncio

import structlog
from prometheus_client import CollectorRegistry

from controller.hooks.access import TokenFile, token_of
from controller.hooks.instruments import HookInstruments
from controller.hooks.server import Hooks, HooksServer
from tidegate.domain.actions.rules import Known, Rules
from tidegate.domain.errors import ConfigError
from tidegate.domain.flow.classes import Classes
from tidegate.settings.config_file import FileConfig
from tidegate.settings.services import XdsSettings
from tidegate.store.ports import Store

log = structlog.get_logger("controller.hooks")


def token_for(settings: XdsSettings) -> str | None:
    """The token of `settings`. Raises ConfigError: before anything starts, so that nobody serves hooks to everyone."""
    if settings.hooks_listen is None:
        return None
    return token_of(settings.hooks_listen, settings.hooks_token_file)


async def serve_hooks(store: Store, file: FileConfig, settings: XdsSettings, registry: CollectorRegistry) -> None:
    """Answer hooks until cancelled. Raises ConfigError: the port is taken, or the token cannot be read."""
    if settings.hooks_listen is None:
        raise ConfigError(["--hooks-listen is not set"])
    token = TokenFile(settings.hooks_listen, settings.hooks_token_file)
    instruments = HookInstruments(registry)
    server = HooksServer(Hooks(rules_of(file), store, instruments, token=token.current))
    try:
        log.info("hooks are served", listen=await server.start(settings.hooks_listen))
        await asyncio.Event().wait()
    finally:
        await server.stop()
        instruments.close()


def rules_of(file: FileConfig) -> Rules:
    """The rules of the file, and what their targets may name."""
    topology = file.topology
    return Rules(
        file.actions,
        Known(
            clusters=frozenset(cluster.name for cluster in topology.clusters),
            classes=frozenset(Classes(topology.classes).names),
            models=frozenset(topology.split_models),
        ),
    )
