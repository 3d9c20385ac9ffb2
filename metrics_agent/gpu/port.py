"""The GPUs of a node, as a port. NVML implements it (`process`); a fixed one serves tests and nodes without GPUs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

GpuFields = dict[str, bool | int | float | str | None]
GpuTable = Mapping[str, GpuFields]


class NvmlState(StrEnum):
    """What the node says of its driver: `nvml` of `node:{node}`."""

    STARTING = "starting"  # no reading yet
    OK = "ok"
    PARTIAL = "partial"  # some card does not answer fully; its own `reason` says why
    GPU_LOST = "gpu_lost"  # some card fell off the bus or vanished
    STALE = "stale"  # a reading is overdue; the last one stands
    HUNG = "hung"  # a call does not return; nothing is known
    NO_LIBRARY = "no_library"
    DRIVER_NOT_LOADED = "driver_not_loaded"
    DRIVER_MISMATCH = "driver_mismatch"  # the library and the kernel module are of different versions
    NO_PERMISSION = "no_permission"
    CRASHED = "crashed"  # the process that calls the driver died
    ERROR = "error"  # any other refusal of the whole driver


@dataclass(frozen=True, slots=True)
class GpuReading:
    """What the driver said at `read_at_ms` (Unix milliseconds); 0 before it said anything.

    `nvml` is a NvmlState; `gpus` holds every card and MIG device by UUID. docs/nvml.md lists the fields. A field that
    the card does not tell is absent.
    """

    nvml: str = NvmlState.STARTING
    gpus: GpuTable = field(default_factory=dict)
    read_at_ms: int = 0


def in_time_of(gpus: GpuTable, clock: Callable[[int], int]) -> dict[str, GpuFields]:
    """The cards with their times of reading in another clock, to which `clock` translates Unix milliseconds."""
    return {uuid: _in_time_of(fields, clock) for uuid, fields in gpus.items()}


def _in_time_of(fields: GpuFields, clock: Callable[[int], int]) -> GpuFields:
    at_ms = fields.get("sampled_at_ms")
    return fields | {"sampled_at_ms": clock(at_ms)} if isinstance(at_ms, int) else fields


class GpuReader(Protocol):
    """Where the agent gets GPU readings from."""

    def start(self) -> None:
        """Begin to read in the background, on the running event loop. Returns at once."""

    def latest(self) -> GpuReading:
        """The newest reading; never blocks. Values of a driver that hangs are unknown."""

    async def stop(self) -> None:
        """End reading and let go of the driver, within two seconds even when it hangs."""


@dataclass(slots=True)
class FixedGpus:
    """A GpuReader that tells what it is given."""

    reading: GpuReading = field(default_factory=lambda: GpuReading(nvml=NvmlState.NO_LIBRARY))

    def start(self) -> None:
        """Nothing to start."""

    def latest(self) -> GpuReading:
        """The given reading."""
        return self.reading

    async def stop(self) -> None:
        """Nothing to stop."""
