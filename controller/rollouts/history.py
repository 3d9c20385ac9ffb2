"""Writes down what became of each split: a line at every change, and one every ten seconds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from controller.rollouts.duty import by_model
from tidegate.domain.actions.layers import with_splits
from tidegate.domain.lease import Lease
from tidegate.domain.outcomes.version import last_minute
from tidegate.domain.rollout.snapshot import versions_seen
from tidegate.domain.split import Parts, in_force
from tidegate.domain.topology import Topology
from tidegate.store.ports import Store
from tidegate.store.rollouts import SplitLine

EVERY_SECONDS: Final = 1.0
LINE_EVERY_MS: Final = 10_000


class SplitHistory:
    """A Duty."""

    name = "split-history"
    every_seconds = EVERY_SECONDS

    def __init__(self, store: Store, topology: Topology) -> None:
        self._store, self._topology = store, topology
        self._lease: Lease | None = None
        self._written: dict[str, tuple[Parts, int]] = {}

    async def tick(self, lease: Lease) -> None:
        """Write the lines that are due. Raises NotLeading and StoreError."""
        if lease != self._lease:
            self._lease, self._written = lease, {}
        tuned, effects = (await self._store.operator_keys((), ())).tuned, await self._store.effects()
        tuned = with_splits(tuned, effects, self._topology.split_models)
        splits = {model: split.parts for model, split in in_force(self._topology, tuned).items()}
        if not splits:
            return
        now_ms = round(await self._store.time_ms())
        due = {model: why for model, parts in splits.items() if (why := self._due(model, parts, now_ms)) is not None}
        if due:
            await self._write(due, splits, now_ms)

    def _due(self, model: str, parts: Parts, now_ms: int) -> str | None:
        written = self._written.get(model)
        if written is not None and written[0] != parts:
            return "changed"
        return "" if written is None or now_ms - written[1] >= LINE_EVERY_MS else None

    async def _write(self, due: Mapping[str, str], splits: Mapping[str, Parts], now_ms: int) -> None:
        told = by_model(await self._store.outcomes((), (), list(due)), list(due))
        for model, why in due.items():
            seen = last_minute(told[model].values()) if told[model] else None
            rows = versions_seen(splits[model], seen)
            versions = {str(row.pop("cluster")): row for row in rows}
            line = SplitLine(at_ms=now_ms, why=why, versions=versions)
            await self._store.note_split(model, line, lease=self._lease)
            self._written[model] = (splits[model], now_ms)
