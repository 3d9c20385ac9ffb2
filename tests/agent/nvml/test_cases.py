"""Every case of `cases/`: a scripted driver, read through the real binding, against the reading that it must give."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from metrics_agent.gpu import memory_of
from tests.conftest import until

CASES = {path.stem: json.loads(path.read_text()) for path in sorted((Path(__file__).parent / "cases").glob("*.json"))}


def told(reading):
    """What a reading says, without its times."""
    gpus = {uuid: {k: v for k, v in card.items() if k != "sampled_at_ms"} for uuid, card in reading.gpus.items()}
    return {"nvml": str(reading.nvml), "gpus": gpus}


@pytest.mark.parametrize("case", [pytest.param(case, id=name) for name, case in CASES.items()])
async def test_case(case, driver, reader):
    driver.write(case["script"])
    expected = {"nvml": case["nvml"], "gpus": case["gpus"]}
    gpus = reader()
    try:
        await until(lambda: told(gpus.latest()) == expected)
    except AssertionError:
        assert expected == told(gpus.latest())
    for engine in case["engines"]:
        memory = engine["vram_free_bytes"], engine["vram_total_bytes"]
        assert memory == memory_of(gpus.latest(), tuple(engine["gpus"])), engine["gpus"]
    assert driver.count("nvmlDeviceGetComputeRunningProcesses_v3") == 0
