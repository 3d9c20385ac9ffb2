"""What runs in xds' process beside it. Apart from the subcommands, since the other services load none of this."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from prometheus_client import CollectorRegistry

from controller.app import control
from controller.hooks.app import serve_hooks
from tidegate.settings.config_file import FileConfig
from tidegate.settings.services import XdsSettings
from tidegate.store.ports import Store

Companion = tuple[str, Callable[[Store, FileConfig, CollectorRegistry], Coroutine[Any, Any, None]]]
"""A name, and what runs in xds' process beside it, on its store, file and metrics."""


def companions_of_xds(settings: XdsSettings) -> list[Companion]:
    """The controller, and the hooks where there are any."""

    def controller(store: Store, file: FileConfig, registry: CollectorRegistry) -> Coroutine[Any, Any, None]:
        return control(store, file, settings, registry)

    def hooks(store: Store, file: FileConfig, registry: CollectorRegistry) -> Coroutine[Any, Any, None]:
        return serve_hooks(store, file, settings, registry)

    companions: list[Companion] = [("controller", controller)] if settings.controller else []
    return companions + ([("hooks", hooks)] if settings.hooks_listen is not None else [])
