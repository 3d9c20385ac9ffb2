"""The doors of all clusters, and the clock that opens them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any, Final

from ext_proc.flow.gate import Gate
from ext_proc.view import FleetView
from tidegate.domain.flow.classes import band

TICK_SECONDS: Final = 0.025
"""Between two looks while somebody waits: the picker's books drain between samples too."""


class Gates:
    """One gate a cluster of the file. `clock` gives Unix milliseconds."""

    def __init__(self, fleet: FleetView, clock: Callable[[], int]) -> None:
        self._somebody = asyncio.Event()
        self._gates = {name: Gate(fleet.cluster(name), clock, self._somebody.set) for name in fleet.names}

    def __iter__(self) -> Iterator[tuple[str, Gate]]:
        return iter(self._gates.items())

    def of(self, cluster: str) -> Gate:
        """The gate of a cluster of the file."""
        return self._gates[cluster]

    def changed(self) -> None:
        """Samples, weights or settings came: there may be room."""
        for gate in self._gates.values():
            gate.changed()

    def stop(self) -> None:
        """Nobody waits any more."""
        for gate in self._gates.values():
            gate.stop()

    async def run(self) -> None:
        """Look again and again while somebody waits, until cancelled."""
        while True:
            await self._somebody.wait()
            await asyncio.sleep(TICK_SECONDS)
            self.changed()
            if not any(gate.busy for gate in self._gates.values()):
                self._somebody.clear()

    def report(self, now_ms: int) -> dict[str, dict[str, Any]]:
        """By cluster, what its queue holds, JSON-able; clusters whose queue is empty are left out."""
        return {name: _report(gate, now_ms) for name, gate in self._gates.items() if len(gate.queue)}


def _report(gate: Gate, now_ms: int) -> dict[str, Any]:
    by_band: dict[str, int] = {}
    by_class: dict[str, int] = {}
    for (priority, name), count in gate.queue.depth().items():
        by_band[band(priority)] = by_band.get(band(priority), 0) + count
        by_class[name] = by_class.get(name, 0) + count
    return {
        "waiting": len(gate.queue),
        "bytes": gate.queue.size_bytes,
        "oldest_ms": max(now_ms - one.arrived_ms for one in gate.queue),
        "drain_per_second": gate.queue.drain.per_second(now_ms),
        "priorities": by_band,
        "classes": by_class,
    }
