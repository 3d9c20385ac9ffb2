"""What a driver's refusal is called, and what follows from it.

GpuError
├── DriverError   the whole driver: NVML has to be initialised again
└── CardError     this card, whatever it is asked
"""

from __future__ import annotations

from typing import Final

NO_LIBRARY: Final = "no_library"
DRIVER_MISMATCH: Final = "driver_mismatch"
DRIVER_NOT_LOADED: Final = "driver_not_loaded"
UNINITIALIZED: Final = "uninitialized"
GPU_LOST: Final = "gpu_lost"
RESET_REQUIRED: Final = "reset_required"
NO_PERMISSION: Final = "no_permission"
NOT_SUPPORTED: Final = "not_supported"
FUNCTION_NOT_FOUND: Final = "function_not_found"
GARBAGE: Final = "garbage"
UNKNOWN: Final = "unknown"

DRIVER_FAULTS: Final = {NO_LIBRARY, DRIVER_MISMATCH, DRIVER_NOT_LOADED, UNINITIALIZED}
CARD_FAULTS: Final = {GPU_LOST, RESET_REQUIRED}
UNSUPPORTED: Final = {NOT_SUPPORTED, FUNCTION_NOT_FOUND, "vgpu_ecc_not_supported", "deprecated"}
# Why version 2 of a call sends the caller to version 1; WSL answers "unknown".
OTHER_VERSION: Final = {*UNSUPPORTED, "invalid_argument", "argument_version_mismatch", UNKNOWN}


class GpuError(Exception):
    """The driver refused one question. `kind` is one of the words above, or NVML's own in lower case."""

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.kind = kind


class DriverError(GpuError):
    """No question can be answered before NVML is initialised again."""


class CardError(GpuError):
    """The card answers nothing: it is lost, or waits for a reset."""


def error_of(kind: str) -> GpuError:
    """The error of that kind, in the type that says how far it reaches."""
    if kind in DRIVER_FAULTS:
        return DriverError(kind)
    return CardError(kind) if kind in CARD_FAULTS else GpuError(kind)
