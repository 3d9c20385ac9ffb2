"""The newest snapshot, and who waits for the next one. Single event loop; knows nothing of streams or gRPC."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from xds_server.snapshot import Snapshot


class Watcher:
    """One waiter's slot. It holds no queue: whoever is late finds the newest snapshot alone."""

    def __init__(self, cache: SnapshotCache) -> None:
        self._cache, self._changed = cache, asyncio.Event()
        if cache.snapshot is not None:
            self._changed.set()

    async def next(self) -> Snapshot:
        """The newest snapshot, once there is one that this watcher has not been given. Safe to cancel."""
        await self._changed.wait()
        self._changed.clear()
        assert self._cache.snapshot is not None
        return self._cache.snapshot

    def wake(self) -> None:
        """Say that the cache holds a snapshot that this watcher has not seen."""
        self._changed.set()


class SnapshotCache:
    """Holds one snapshot and wakes every watcher when its content changes."""

    def __init__(self) -> None:
        self.snapshot: Snapshot | None = None
        self._watchers: set[Watcher] = set()

    def set(self, snapshot: Snapshot) -> tuple[str, ...]:
        """Serve `snapshot`; the type URLs that changed. A byte-identical one wakes nobody."""
        changed = snapshot.changed_types(self.snapshot)
        if changed:
            self.snapshot = snapshot
            for watcher in self._watchers:
                watcher.wake()
        return changed

    @property
    def watchers(self) -> int:
        """How many streams wait."""
        return len(self._watchers)

    @contextmanager
    def watch(self) -> Iterator[Watcher]:
        """A watcher that is woken by each change until the block ends."""
        watcher = Watcher(self)
        self._watchers.add(watcher)
        try:
            yield watcher
        finally:
            self._watchers.discard(watcher)
