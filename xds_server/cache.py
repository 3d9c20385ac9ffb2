"""The newest snapshot of each group, and who waits for the next one. Knows nothing of streams or gRPC.

Single event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from xds_server.groups import DEFAULT_GROUP
from xds_server.snapshot import Snapshot


class Watcher:
    """One stream's slot. It holds no queue: whoever is late finds the newest snapshot alone."""

    def __init__(self, cache: SnapshotCache, group: str) -> None:
        self._cache, self._group, self._changed = cache, group, asyncio.Event()
        self._seen = cache.snapshot_of(group)
        self._changed.set()

    @property
    def snapshot(self) -> Snapshot | None:
        """The newest snapshot of this watcher's group, or None while there is none."""
        return self._cache.snapshot_of(self._group)

    async def woken(self, patience_seconds: float | None = None) -> None:
        """Return at once the first time, then after each `wake`, or after `patience_seconds`. Safe to cancel."""
        with suppress(TimeoutError):
            async with asyncio.timeout(patience_seconds):
                await self._changed.wait()
        self._changed.clear()

    def wake(self) -> None:
        """Have `woken` return."""
        self._changed.set()

    def look(self) -> None:
        """Wake when the group's snapshot is another one than at the last look."""
        snapshot = self.snapshot
        if snapshot is not self._seen:
            self._seen = snapshot
            self.wake()


class SnapshotCache:
    """Holds one snapshot a group, and wakes every watcher whose snapshot changes in content."""

    def __init__(self) -> None:
        self._snapshots: dict[str, Snapshot] = {}
        self._watchers: set[Watcher] = set()

    @property
    def snapshot(self) -> Snapshot | None:
        """The snapshot of the default group."""
        return self._snapshots.get(DEFAULT_GROUP)

    def snapshot_of(self, group: str) -> Snapshot | None:
        """The snapshot of a group, or that of the default group when it has none of its own."""
        return self._snapshots.get(group) or self.snapshot

    def set(self, snapshot: Snapshot, group: str = DEFAULT_GROUP) -> tuple[str, ...]:
        """Serve `snapshot` to a group; the type URLs that changed. A byte-identical one wakes nobody."""
        changed = snapshot.changed_types(self._snapshots.get(group))
        if changed:
            self._snapshots[group] = snapshot
            self._wake()
        return changed

    def drop(self, group: str) -> None:
        """Serve the default group's snapshot to this group from here on."""
        if group != DEFAULT_GROUP and self._snapshots.pop(group, None) is not None:
            self._wake()

    @property
    def watchers(self) -> int:
        """How many streams wait."""
        return len(self._watchers)

    @contextmanager
    def watch(self, group: str = DEFAULT_GROUP) -> Iterator[Watcher]:
        """A watcher that is woken by each change of its group until the block ends."""
        watcher = Watcher(self, group)
        self._watchers.add(watcher)
        try:
            yield watcher
        finally:
            self._watchers.discard(watcher)

    def _wake(self) -> None:
        for watcher in self._watchers:
            watcher.look()
