"""Wiring of the controller, which runs in the process of `tidegate xds`."""

from __future__ import annotations

from prometheus_client import CollectorRegistry

from controller import loop
from controller.actions.duty import ActionsDuty
from controller.actions.instruments import ActionInstruments
from controller.healing.duty import Healing
from controller.rollouts.duty import Rollouts
from controller.rollouts.history import SplitHistory
from controller.rollouts.metrics import RolloutMetrics
from controller.rollouts.silent import SilentVersions
from controller.scaling.duty import Scaling
from controller.scaling.metrics import ScaleMetrics
from tidegate.settings.config_file import FileConfig
from tidegate.settings.services import XdsSettings
from tidegate.store.ports import Store


async def control(store: Store, file: FileConfig, settings: XdsSettings, registry: CollectorRegistry) -> None:
    """Decide, and carry out the duties of a leader, until cancelled. A store that fails is never raised."""
    scale_metrics, rollout_metrics = ScaleMetrics(registry), RolloutMetrics(registry)
    actions, rules = ActionInstruments(registry), [rule.name for rule in file.actions.rules]
    try:
        await loop.run(
            store,
            file.topology,
            tick_ms=settings.tick_ms,
            sample_ttl_ms=settings.sample_ttl_ms,
            registry=registry,
            duties=[
                ActionsDuty(store, rules, actions),
                Healing(store, file.topology, actions),
                Scaling(store, file.topology, scale_metrics),
                Rollouts(store, file.topology, rollout_metrics),
                SplitHistory(store, file.topology),
                SilentVersions(store, file.topology),
            ],
        )
    finally:
        actions.close()
        scale_metrics.close()
        rollout_metrics.close()
