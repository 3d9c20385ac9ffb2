"""What the cards of an engine say about it."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from metrics_agent.gpu.errors import CARD_FAULTS
from metrics_agent.gpu.port import GpuReading
from metrics_agent.gpu.visible import cards_of
from tidegate.domain.sample import EndpointSample, Status

FREE: Final = "vram_free_bytes"
TOTAL: Final = "vram_total_bytes"


def with_gpus(sample: EndpointSample, reading: GpuReading, wanted: tuple[int | str, ...]) -> EndpointSample:
    """The sample with the memory of the engine's cards; `draining` when one of them is lost or waits for a reset.

    `wanted` names the cards as `memory_of` takes them; an engine that names none is left as it is.
    """
    if not wanted:
        return sample
    free, total = memory_of(reading, wanted)
    status = Status.DRAINING if sample.status.takes_traffic and _broken(reading, wanted) else sample.status
    return replace(sample, vram_free_bytes=free, vram_total_bytes=total, status=status)


def memory_of(reading: GpuReading, wanted: tuple[int | str, ...]) -> tuple[int | None, int | None]:
    """Free and total bytes over an engine's cards, each named by NVML index or UUID (full, or a unique start).

    Both are None when the engine names no card or one of them does not tell: a part is not the whole.
    """
    cards = cards_of(reading.gpus, wanted)
    free = [reading.gpus[uuid].get(FREE) for uuid in cards or ()]
    total = [reading.gpus[uuid].get(TOTAL) for uuid in cards or ()]
    if not cards or None in free or None in total:
        return None, None
    return sum(int(one or 0) for one in free), sum(int(one or 0) for one in total)


def _broken(reading: GpuReading, wanted: tuple[int | str, ...]) -> bool:
    cards = cards_of(reading.gpus, wanted) or ()
    return any(reading.gpus[uuid].get("reason") in CARD_FAULTS for uuid in cards)
