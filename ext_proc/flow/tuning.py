"""Follows what operators tune of picks and queues."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from ext_proc.flow.gates import Gates
from ext_proc.view import FleetView
from tidegate.domain.flow import settings as flow
from tidegate.domain.pick import settings as pick
from tidegate.store.ports import OperatorKeys

GLOBAL = ""
"""The scope of `tune`, beside clusters' names."""


class Tuning:
    """`tune` holds for every cluster, `tune:{cluster}` for that one, and wins.

    A bad value leaves the one in force; the controller says so.
    """

    def __init__(self, fleet: FleetView, gates: Gates) -> None:
        self._fleet, self._gates = fleet, gates

    def apply(self, tunes: Mapping[str, Mapping[str, str]]) -> None:
        """Put in force what was typed, by scope and name."""
        for name in self._fleet.names:
            picker, gate = self._fleet.cluster(name).picker, self._gates.of(name)
            picks, queues = pick.DEFAULT, flow.DEFAULT
            for scope in (GLOBAL, name):
                fields = tunes.get(scope, {})
                picks, _ = pick.tuned(picks, fields, picker.settings)
                queues, _ = flow.tuned(queues, fields, gate.settings)
            if picks != picker.settings:
                picker.tune(picks)
            if queues != gate.settings:
                gate.tune(queues)

    async def follow(self, store: OperatorKeys, tick_seconds: float) -> None:
        """Read again and again until cancelled. Raises a StoreError when the store fails; what is in force stays."""
        names: Sequence[str] = self._fleet.names
        while True:
            self.apply((await store.operator_keys(names, ())).good_tunes())
            await asyncio.sleep(tick_seconds)
