"""Says in the audit log that a version serves nobody, once for all instances of ext_proc that find it, and when it
serves again.

Every instance tells in its beat which versions it found without a replica; the leader alone writes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from controller.audit import CONTROLLER
from tidegate.domain.lease import Lease
from tidegate.domain.topology import Topology
from tidegate.store.ports import Event, Store

EVERY_SECONDS: Final = 1.0
CALM_MS: Final = 10_000
"""A version serves again once nobody has found it silent for so long: one that comes and goes is one change."""
SEARCHED: Final = 500
SILENT: Final = "serves nobody"
SERVES: Final = "serves"
TELLS: Final = "silent_versions"
"""Where a beat of ext_proc tells them: [[model, version]]."""


class SilentVersions:
    """A Duty."""

    name = "silent-versions"
    every_seconds = EVERY_SECONDS

    def __init__(self, store: Store, topology: Topology) -> None:
        self._store = store
        self._clusters = {cluster.name for cluster in topology.clusters}
        self._lease: Lease | None = None
        self._silent: dict[str, int] = {}

    async def tick(self, lease: Lease) -> None:
        """Write what changed. Raises NotLeading and StoreError."""
        told = silent_versions(await self._store.present())
        found = {f"version:{model} {version}" for model, version in told if version in self._clusters}
        if lease != self._lease:
            self._lease, self._silent = lease, await self._said()
        if not found and not self._silent:
            return
        now_ms = round(await self._store.time_ms())
        news = [(what, SERVES, SILENT) for what in sorted(found - self._silent.keys())]
        self._silent |= dict.fromkeys(found, now_ms)
        calm = [what for what, at_ms in self._silent.items() if now_ms - at_ms >= CALM_MS]
        news += [(what, SILENT, SERVES) for what in calm]
        if news:
            await self._store.change_fields((), [_event(now_ms, *one) for one in news], lease=lease)
        for what in calm:
            del self._silent[what]

    async def _said(self) -> dict[str, int]:
        """What the log says at present, so that a successor does not say it again."""
        now_ms, last = round(await self._store.time_ms()), dict[str, str]()
        for event in await self._store.events(SEARCHED):
            if event.what.startswith("version:"):
                last[event.what] = event.after
        return {what: now_ms for what, after in last.items() if after == SILENT}


def _event(at_ms: int, what: str, before: str, after: str) -> Event:
    why = "no replica of it takes requests" if after == SILENT else "a replica is back"
    return Event(at_ms=at_ms, who=CONTROLLER, what=what, before=before, after=after, why=why)


def silent_versions(present: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> set[tuple[str, str]]:
    """Models and versions that some instance of ext_proc finds serving nobody, by its beat."""
    told = [info.get(TELLS) for info in present.get("ext_proc", {}).values()]
    pairs = [pair for listed in told if isinstance(listed, list) for pair in listed]
    return {(pair[0], pair[1]) for pair in pairs if _is_pair(pair)}


def _is_pair(one: Any) -> bool:
    return isinstance(one, list) and len(one) == 2 and all(isinstance(name, str) for name in one)
