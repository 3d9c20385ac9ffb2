"""The driver's questions: the only module that imports pynvml. It runs in the worker process alone.

Each function asks one question. pynvml's exceptions never leave: they become GpuError. A value that cannot be (a free
memory above the total, NVML's "not available" constants) is a GpuError of kind `garbage`. Not thread-safe; a call may
hang.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import pynvml

from metrics_agent.gpu import errors
from metrics_agent.gpu.errors import GpuError, error_of

NAMES: Final = {
    pynvml.NVML_ERROR_LIBRARY_NOT_FOUND: errors.NO_LIBRARY,
    pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH: errors.DRIVER_MISMATCH,
    pynvml.NVML_ERROR_GPU_IS_LOST: errors.GPU_LOST,
}
PREFIX: Final = "NVML_ERROR_"
OWN_NAMES: Final = {getattr(pynvml, n): n.removeprefix(PREFIX).lower() for n in dir(pynvml) if n.startswith(PREFIX)}

NOT_AVAILABLE: Final = {0xFFFF_FFFF, 0xFFFF_FFFF_FFFF_FFFF}
MOST_CARDS: Final = 256
MOST_MIG_SLOTS: Final = 16
MOST_MILLIWATTS: Final = 100_000_000
MOST_CELSIUS: Final = 1000


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes of one card or MIG device. `reserved` by the driver is counted apart in version 2 alone."""

    total: int
    free: int
    used: int
    reserved: int | None = None


def initialise() -> None:
    """Load the library and initialise NVML. Raises GpuError."""
    try:
        _ask(pynvml.nvmlInit)
    except GpuError as exc:
        if exc.kind != errors.FUNCTION_NOT_FOUND:
            raise
        _ask(_initialise_v2)


def shut_down() -> None:
    """Let go of the driver. Raises GpuError."""
    _ask(pynvml.nvmlShutdown)


def card_count() -> int:
    """How many cards the driver counts, at most MOST_CARDS."""
    return min(int(_ask(pynvml.nvmlDeviceGetCount)), MOST_CARDS)


def card(index: int) -> Any:
    """The handle of the card at NVML index `index`."""
    return _ask(pynvml.nvmlDeviceGetHandleByIndex, index)


def uuid(handle: Any) -> str:
    """The UUID of a card or MIG device, with its prefix: `GPU-…`, `MIG-…`."""
    text = _text(_ask(pynvml.nvmlDeviceGetUUID, handle))
    if not text:
        raise error_of(errors.GARBAGE)
    return text


def name(handle: Any) -> str:
    """The product's name."""
    return _text(_ask(pynvml.nvmlDeviceGetName, handle))


def memory_v2(handle: Any) -> Memory:
    """Memory with what the driver reserves split off."""
    told = _ask(pynvml.nvmlDeviceGetMemoryInfo, handle, pynvml.nvmlMemory_v2)
    return _memory(told, int(told.reserved))


def memory_v1(handle: Any) -> Memory:
    """Memory in which `used` contains what the driver reserves."""
    return _memory(_ask(pynvml.nvmlDeviceGetMemoryInfo, handle), None)


def utilization_ratio(handle: Any) -> float:
    """Share of the last period in which some kernel ran, 0…1."""
    return _at_most(100, _ask(pynvml.nvmlDeviceGetUtilizationRates, handle).gpu) / 100


def temperature_c(handle: Any) -> int:
    """Degrees Celsius of the chip."""
    try:
        told = _ask(pynvml.nvmlDeviceGetTemperature, handle, pynvml.NVML_TEMPERATURE_GPU)
    except GpuError as exc:
        if exc.kind not in {errors.FUNCTION_NOT_FOUND, "deprecated"}:
            raise
        told = _ask(pynvml.nvmlDeviceGetTemperatureV, handle, pynvml.NVML_TEMPERATURE_GPU)
    return _at_most(MOST_CELSIUS, told)


def power_w(handle: Any) -> float:
    """Watts drawn."""
    return _at_most(MOST_MILLIWATTS, _ask(pynvml.nvmlDeviceGetPowerUsage, handle)) / 1000


def ecc_uncorrected(handle: Any) -> int:
    """Uncorrected memory errors since the driver was loaded."""
    kind, counter = pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, pynvml.NVML_VOLATILE_ECC
    count = int(_ask(pynvml.nvmlDeviceGetTotalEccErrors, handle, kind, counter))
    if count in NOT_AVAILABLE:
        raise error_of(errors.GARBAGE)
    return count


def mig_enabled(handle: Any) -> bool:
    """Whether the card is cut into MIG devices."""
    current, _pending = _ask(pynvml.nvmlDeviceGetMigMode, handle)
    return bool(current == pynvml.NVML_DEVICE_MIG_ENABLE)


def mig_slots(handle: Any) -> int:
    """How many MIG devices the card may hold, at most MOST_MIG_SLOTS."""
    return min(int(_ask(pynvml.nvmlDeviceGetMaxMigDeviceCount, handle)), MOST_MIG_SLOTS)


def mig_device(handle: Any, slot: int) -> Any:
    """The handle of the MIG device in that slot; kind `not_found` where the slot is empty."""
    return _ask(pynvml.nvmlDeviceGetMigDeviceHandleByIndex, handle, slot)


def _ask(call: Callable[..., Any], *arguments: Any) -> Any:
    """The answer, text as bytes: the binding's own decoding fails on names that are not UTF-8."""
    try:
        return getattr(call, "__wrapped__", call)(*arguments)
    except pynvml.NVMLError as exc:
        raise error_of(_kind(exc.value)) from exc
    except AttributeError as exc:
        raise error_of(errors.FUNCTION_NOT_FOUND) from exc


def _initialise_v2() -> None:
    """For libraries before driver 396, which the binding itself no longer initialises."""
    code = pynvml.nvmlLib.nvmlInit_v2()
    if code != pynvml.NVML_SUCCESS:
        raise pynvml.NVMLError(code)


def _kind(code: int) -> str:
    return NAMES.get(code) or OWN_NAMES.get(code) or f"error_{code}"


def _text(value: Any) -> str:
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
    return text.strip()


def _memory(told: Any, reserved: int | None) -> Memory:
    total, free, used = int(told.total), int(told.free), int(told.used)
    if not 0 < total < 1 << 62 or free > total or used > total:
        raise error_of(errors.GARBAGE)
    return Memory(total, free, used, reserved if reserved is None or reserved <= total else None)


def _at_most(most: int, told: Any) -> int:
    value = int(told)
    if not 0 <= value <= most:
        raise error_of(errors.GARBAGE)
    return value
