"""Desired state → a checked snapshot, doing over only what changed.

When nothing but weights moved, the messages of the last assignments are changed in place and no other resource is
built. Else everything is built, and what has other bytes than before is checked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from xds_server.consistency import check
from xds_server.desired import Desired, DesiredCluster
from xds_server.resources import build
from xds_server.snapshot import Resource, Snapshot, resource, snapshot_of, typed
from xds_server.type_urls import ENDPOINT
from xds_server.weights import differs_in_weights_alone, reweigh


class Assembler:
    """Remembers the last good state. Raises and keeps it when the next one is bad."""

    def __init__(self) -> None:
        self._desired: Desired | None = None
        self._snapshot: Snapshot | None = None
        self._assignments: Mapping[str, Any] = {}

    def snapshot(self, desired: Desired) -> Snapshot:
        """The snapshot of `desired`. Raises InconsistentResources, or ValueError when two names are one."""
        before, last = self._desired, self._snapshot
        if before is not None and last is not None and differs_in_weights_alone(before, desired):
            self._desired = None  # should this fail midway, the next one is built from the ground
            snapshot = last.with_type(ENDPOINT, typed(self._reweighed(before, desired, last)))
        else:
            messages = build(desired)
            snapshot = snapshot_of(messages)
            check(messages, _unchanged(snapshot, last))
            self._assignments = messages[ENDPOINT]
        self._desired, self._snapshot = desired, snapshot
        return snapshot

    def _reweighed(self, before: Desired, desired: Desired, last: Snapshot) -> Iterator[Resource]:
        resources = last.resources(ENDPOINT)
        for old, new in zip(before.clusters, desired.clusters, strict=True):
            yield resources[new.name] if old == new else self._reweigh(new)

    def _reweigh(self, cluster: DesiredCluster) -> Resource:
        assignment = self._assignments[cluster.name]
        reweigh(assignment, cluster)
        return resource(ENDPOINT, cluster.name, assignment)


def _unchanged(snapshot: Snapshot, last: Snapshot | None) -> frozenset[tuple[str, str]]:
    """Type URLs and names of the resources that have the bytes that they had."""
    if last is None:
        return frozenset()
    return frozenset(
        (type_url, name)
        for type_url in snapshot.types
        for name, one in snapshot.resources(type_url).items()
        if last.resources(type_url).get(name) == one
    )
