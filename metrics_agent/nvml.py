"""GPU readings through NVML: the only module that imports pynvml.

One daemon thread makes every NVML call, so a driver that hangs blocks that thread and nothing else: the event
loop looks at the newest reading and at the time its successor was begun. NVML is initialised once; where that
fails it is tried again every 30 s.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any, Final

import pynvml
import structlog

from metrics_agent.gpu import HUNG, NO_LIBRARY, OK, GpuFields, GpuReading
from tidegate.runtime import now_ms

DEADLINE_SECONDS: Final = 2.0
RETRY_SECONDS: Final = 30.0
STOP_SECONDS: Final = 2.0

STATES: Final = {
    pynvml.NVML_ERROR_LIBRARY_NOT_FOUND: NO_LIBRARY,
    pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH: "driver_mismatch",
    pynvml.NVML_ERROR_DRIVER_NOT_LOADED: "no_driver",
    pynvml.NVML_ERROR_NO_PERMISSION: "no_permission",
}
ERROR: Final = "error"

log = structlog.get_logger("metrics_agent.nvml")


class NvmlGpus:
    """A GpuReader on the node's driver, read every `interval_seconds`. `start` and `stop` belong to one task."""

    def __init__(self, interval_seconds: float, deadline_seconds: float = DEADLINE_SECONDS) -> None:
        self._interval, self._deadline = interval_seconds, deadline_seconds
        self._newest = GpuReading()
        self._busy_since: float | None = None
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread."""
        self._thread = threading.Thread(target=self._work, name="nvml", daemon=True)
        self._thread.start()

    def latest(self) -> GpuReading:
        """The newest reading, or `hung` without GPUs while one call takes longer than the deadline."""
        busy_since = self._busy_since
        if busy_since is not None and time.monotonic() - busy_since > self._deadline:
            return GpuReading(nvml=HUNG, read_at_ms=self._newest.read_at_ms)
        return self._newest

    async def stop(self) -> None:
        """Ask the thread to shut NVML down; wait for it at most two seconds."""
        self._stopping.set()
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join, STOP_SECONDS)

    def _work(self) -> None:
        while not self._stopping.is_set():
            state = self._timed(_initialise)
            if state == OK:
                self._read_until_lost()
                continue
            self._newest = GpuReading(nvml=state, read_at_ms=now_ms())
            log.info("no GPU readings", nvml=state)
            self._stopping.wait(RETRY_SECONDS)

    def _read_until_lost(self) -> None:
        try:
            while not self._stopping.is_set():
                self._newest = GpuReading(OK, self._timed(_read_all), now_ms())
                self._stopping.wait(self._interval)
        except pynvml.NVMLError as exc:
            self._newest = GpuReading(nvml=_state(exc), read_at_ms=now_ms())
            log.warning("NVML failed", error=str(exc))
            self._stopping.wait(RETRY_SECONDS)
        finally:
            self._timed(_shut_down)

    def _timed(self, call: Callable[[], Any]) -> Any:
        self._busy_since = time.monotonic()
        try:
            return call()
        finally:
            self._busy_since = None


def _initialise() -> str:
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as exc:
        return _state(exc)
    return OK


def _shut_down() -> None:
    _optional(pynvml.nvmlShutdown)


def _state(error: pynvml.NVMLError) -> str:
    return STATES.get(error.value, ERROR)


def _read_all() -> dict[str, GpuFields]:
    """Every card by UUID. Raises NVMLError when the driver does not even count its cards."""
    cards: dict[str, GpuFields] = {}
    for index in range(pynvml.nvmlDeviceGetCount()):
        handle = _optional(pynvml.nvmlDeviceGetHandleByIndex, index)
        uuid = _text(_optional(pynvml.nvmlDeviceGetUUID, handle)) if handle is not None else None
        if uuid is not None:
            cards[uuid] = _read_one(index, handle)
    return cards


def _read_one(index: int, handle: Any) -> GpuFields:
    """Every field on its own: one that the card does not support leaves the others."""
    memory = _memory(handle)
    utilization = _optional(pynvml.nvmlDeviceGetUtilizationRates, handle)
    power_milliwatts = _optional(pynvml.nvmlDeviceGetPowerUsage, handle)
    return {
        "index": index,
        "name": _text(_optional(pynvml.nvmlDeviceGetName, handle)),
        "memory_free_bytes": int(memory.free) if memory else None,
        "memory_total_bytes": int(memory.total) if memory else None,
        "utilization_ratio": utilization.gpu / 100 if utilization else None,
        "power_watts": None if power_milliwatts is None else power_milliwatts / 1000,
        "temperature_celsius": _optional(pynvml.nvmlDeviceGetTemperature, handle, pynvml.NVML_TEMPERATURE_GPU),
    }


def _memory(handle: Any) -> Any:
    """Version 2 splits off what the driver reserves; older drivers have version 1 alone."""
    newer = _optional(pynvml.nvmlDeviceGetMemoryInfo, handle, pynvml.nvmlMemory_v2)
    return newer if newer is not None else _optional(pynvml.nvmlDeviceGetMemoryInfo, handle)


def _optional(call: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return call(*arguments)
    except pynvml.NVMLError:
        return None


def _text(value: Any) -> str | None:
    """Old bindings answer bytes."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return value if isinstance(value, str) else None
