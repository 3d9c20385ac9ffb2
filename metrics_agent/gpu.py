"""The GPUs of a node, as a port. NVML implements it (`nvml`); a fixed one serves tests and nodes without GPUs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

OK: Final = "ok"
NO_LIBRARY: Final = "no_library"
STARTING: Final = "starting"
HUNG: Final = "hung"

GpuFields = dict[str, int | float | str | None]


@dataclass(frozen=True, slots=True)
class GpuReading:
    """What the driver said at `read_at_ms` (Unix milliseconds). `nvml` is ok, or what is wrong.

    `gpus` by UUID: `index`, `name`, `memory_free_bytes`, `memory_total_bytes`, `utilization_ratio` (0…1),
    `power_watts`, `temperature_celsius`; a field that the card does not tell is None.
    """

    nvml: str = STARTING
    gpus: Mapping[str, GpuFields] = field(default_factory=dict)
    read_at_ms: int = 0


class GpuReader(Protocol):
    """Where the agent gets GPU readings from."""

    def start(self) -> None:
        """Begin to read in the background. Returns at once."""

    def latest(self) -> GpuReading:
        """The newest reading; never blocks. A driver that hangs is `hung`, with no GPUs."""

    async def stop(self) -> None:
        """End reading and let go of the driver, within two seconds even when it hangs."""


@dataclass(slots=True)
class FixedGpus:
    """A GpuReader that tells what it is given."""

    reading: GpuReading = field(default_factory=lambda: GpuReading(nvml=NO_LIBRARY))

    def start(self) -> None:
        """Nothing to start."""

    def latest(self) -> GpuReading:
        """The given reading."""
        return self.reading

    async def stop(self) -> None:
        """Nothing to stop."""


def memory_of(reading: GpuReading, wanted: tuple[int | str, ...]) -> tuple[int | None, int | None]:
    """Free and total bytes over an engine's GPUs, given as NVML indexes or UUIDs (full, or a unique start).

    Both are None when the engine names no GPU or one of them does not tell: a part is not the whole.
    """
    cards = [_card(reading, one) for one in wanted]
    frees = [_bytes(card, "memory_free_bytes") for card in cards]
    totals = [_bytes(card, "memory_total_bytes") for card in cards]
    if not cards or None in frees or None in totals:
        return None, None
    return sum(free or 0 for free in frees), sum(total or 0 for total in totals)


def _card(reading: GpuReading, wanted: int | str) -> GpuFields | None:
    if isinstance(wanted, int):
        cards = [card for card in reading.gpus.values() if card.get("index") == wanted]
    else:
        cards = [card for uuid, card in reading.gpus.items() if wanted and uuid.startswith(wanted)]
    return cards[0] if len(cards) == 1 else None


def _bytes(card: GpuFields | None, name: str) -> int | None:
    value = card.get(name) if card else None
    return value if isinstance(value, int) else None
