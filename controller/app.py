"""Wiring of the controller, which runs in the process of `tidegate xds`."""

from __future__ import annotations

from prometheus_client import CollectorRegistry

from controller import loop
from controller.actions.duty import ActionsDuty
from controller.actions.instruments import ActionInstruments
from tidegate.settings.config_file import FileConfig
from tidegate.settings.services import XdsSettings
from tidegate.store.ports import Store


async def control(store: Store, file: FileConfig, settings: XdsSettings, registry: CollectorRegistry) -> None:
    """Decide, and carry out the duties of a leader, until cancelled. A store that fails is never raised."""
    actions, rules = ActionInstruments(registry), [rule.name for rule in file.actions.rules]
    try:
        await loop.run(
            store,
            file.topology,
            tick_ms=settings.tick_ms,
            sample_ttl_ms=settings.sample_ttl_ms,
            registry=registry,
            duties=[ActionsDuty(store, rules, actions)],
        )
    finally:
        actions.close()
