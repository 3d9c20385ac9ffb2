"""Leaves replicas alone that answer with nothing but faults, as the outcomes service tells how requests ended."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Final

import structlog

from ext_proc.view import FleetView
from tidegate.domain.faults import Ends, FaultWatch
from tidegate.domain.outcomes.ending import Ending
from tidegate.domain.outcomes.report import Report
from tidegate.domain.topology import LbPolicy, Topology
from tidegate.store.ports import Outcomes

log = structlog.get_logger("ext_proc.faults")

LOOK_SECONDS: Final = 1.0
"""Between two looks; the outcomes service tells once a second."""
_ANSWERS: Final = (Ending.SERVED, Ending.CLIENT_ERROR, Ending.BACK_PRESSURE)


class FaultBook:
    """The `pick` clusters of the file; in others Envoy's ejection does the same. `clock` gives Unix milliseconds."""

    def __init__(self, topology: Topology, fleet: FleetView, clock: Callable[[], int]) -> None:
        self._fleet, self._clock = fleet, clock
        self._watches = {
            cluster.name: FaultWatch(cluster.envoy.eject_after, cluster.envoy.eject_ms)
            for cluster in topology.clusters
            if cluster.lb is LbPolicy.PICK
        }
        self._aside: dict[str, frozenset[str]] = {}

    async def follow(self, store: Outcomes) -> None:
        """Look again and again. Raises StoreError; what was aside stays so."""
        while True:
            if self._watches:
                self.look(await store.outcomes(tuple(self._watches)))
            await asyncio.sleep(LOOK_SECONDS)

    def look(self, reports: Iterable[Report]) -> None:
        """Set aside and take back, by what all instances of the outcomes service told together."""
        seen = ends_seen(reports)
        now_ms = self._clock()
        for name, watch in self._watches.items():
            view = self._fleet.cluster(name)
            aside = watch.look(seen.get(name, {}), view.open(now_ms), now_ms)
            if aside != self._aside.get(name, frozenset()):
                self._aside[name] = aside
                log.warning("replicas that answer with faults alone are left alone", cluster=name, aside=sorted(aside))
                view.set_aside(aside)


def ends_seen(reports: Iterable[Report]) -> Mapping[str, Mapping[str, Ends]]:
    """By cluster and replica, requests that ended since the instances began."""
    found: dict[str, dict[str, Ends]] = {}
    for report in reports:
        for cluster, replicas in report.clusters.items():
            known = found.setdefault(cluster, {})
            for address, told in replicas.items():
                before = known.get(address, Ends())
                faults = before.faults + told.ever[Ending.FAULT.place]
                known[address] = Ends(faults, before.answers + sum(told.ever[one.place] for one in _ANSWERS))
    return found
