"""Whether the agent is of any use: what `/healthz` says. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from metrics_agent.gpu import GpuReading, NvmlState
from metrics_agent.scrape.watcher import EngineWatcher
from tidegate.domain.sample import Status


def trouble(unpublished: str | None, watchers: Sequence[EngineWatcher], reading: GpuReading) -> str | None:
    """None while either half works: samples reach the store, or something is read, an engine or a card.

    `unpublished` is why samples do not reach the store. A restart mends neither a lost Redis nor a lost engine, so
    that one of them alone is no reason for it.
    """
    if unpublished is None or _is_read(reading) or any(map(_reached, watchers)):
        return None
    read = f"none of {len(watchers)} engines answers" if watchers else "no engine is registered"
    return f"{unpublished.rstrip('.')}; {read}; NVML: {reading.nvml}\n"


def _is_read(reading: GpuReading) -> bool:
    """Whether some card tells of itself, whatever is wrong with others; or the driver answers that there is none."""
    return reading.nvml == NvmlState.OK or any(card.get("healthy") is True for card in reading.gpus.values())


def _reached(watcher: EngineWatcher) -> bool:
    return watcher.latest is not None and watcher.latest.status is not Status.UNREACHABLE
