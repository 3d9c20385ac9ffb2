"""GPU readings, with the functions of the binding replaced one by one."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import pynvml
import pytest

from metrics_agent import nvml
from metrics_agent.gpu import HUNG, NO_LIBRARY, OK
from metrics_agent.nvml import NvmlGpus
from tests.conftest import until


def unsupported(*_):
    raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)


@pytest.fixture
def driver(monkeypatch):
    """A driver of one card. `driver(name, function)` replaces one more call."""

    def replace(name, function):
        monkeypatch.setattr(pynvml, name, function)

    def memory(handle, version=None):
        if version is not None:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)
        return SimpleNamespace(free=25, total=100)

    calls = {
        "nvmlInit": lambda: None,
        "nvmlShutdown": lambda: None,
        "nvmlDeviceGetCount": lambda: 1,
        "nvmlDeviceGetHandleByIndex": lambda index: f"handle {index}",
        "nvmlDeviceGetUUID": lambda handle: b"GPU-1234",
        "nvmlDeviceGetName": lambda handle: "A card",
        "nvmlDeviceGetMemoryInfo": memory,
        "nvmlDeviceGetUtilizationRates": unsupported,
        "nvmlDeviceGetPowerUsage": lambda handle: 71_500,
        "nvmlDeviceGetTemperature": unsupported,
    }
    for name, function in calls.items():
        replace(name, function)
    return replace


@pytest.fixture
async def gpus():
    reader = NvmlGpus(interval_seconds=0.01, deadline_seconds=0.1)
    yield reader
    await reader.stop()


async def test_unsupported_fields_are_unknown_and_the_others_are_read(driver, gpus):
    gpus.start()
    await until(lambda: gpus.latest().nvml == OK)
    assert gpus.latest().gpus == {
        "GPU-1234": {
            "index": 0,
            "name": "A card",
            "memory_free_bytes": 25,
            "memory_total_bytes": 100,
            "utilization_ratio": None,
            "power_watts": 71.5,
            "temperature_celsius": None,
        }
    }


@pytest.mark.parametrize(
    ("expected", "code"),
    [
        (NO_LIBRARY, pynvml.NVML_ERROR_LIBRARY_NOT_FOUND),
        ("driver_mismatch", pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH),
        ("no_driver", pynvml.NVML_ERROR_DRIVER_NOT_LOADED),
        ("error", pynvml.NVML_ERROR_UNKNOWN),
    ],
)
async def test_driver_that_does_not_start_says_why(driver, gpus, expected, code):
    def fail():
        raise pynvml.NVMLError(code)

    driver("nvmlInit", fail)
    gpus.start()
    await until(lambda: gpus.latest().nvml == expected)
    assert gpus.latest().gpus == {}


async def test_hung_driver_is_told_by_one_thread_and_blocks_nobody(driver, gpus, monkeypatch):
    monkeypatch.setattr(nvml, "STOP_SECONDS", 0.1)
    release = threading.Event()
    driver("nvmlDeviceGetCount", lambda: release.wait(30) and 0)
    gpus.start()
    await until(lambda: gpus.latest().nvml == HUNG)
    assert [t.name for t in threading.enumerate()].count("nvml") == 1
    release.set()
    await until(lambda: gpus.latest().nvml == OK)


async def test_driver_is_initialised_once_and_shut_down_at_the_end(driver):
    calls = []
    driver("nvmlInit", lambda: calls.append("init"))
    driver("nvmlShutdown", lambda: calls.append("shutdown"))
    reads = []
    driver("nvmlDeviceGetCount", lambda: len(reads.append(1) or ()))
    gpus = NvmlGpus(interval_seconds=0.001)
    gpus.start()
    await until(lambda: len(reads) > 5)
    await gpus.stop()
    assert calls == ["init", "shutdown"]
