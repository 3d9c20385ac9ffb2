"""Which replicas each cluster has: those of the file, then those that agents registered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tidegate.domain.topology import Topology

REGISTRATION_KEPT_MS: Final = 60_000

Roster = dict[str, list[str]]


def roster(topology: Topology, registered: Sequence[tuple[str, str, int]], now_ms: int) -> Roster:
    """Addresses by cluster: the file's in file order, then registered ones by name.

    `registered` are (cluster, address, sampled_at_ms). One that is not in the file leaves 60 s after its last
    sample, unless no endpoint at all was sampled since: then agents or Redis are gone, and nothing leaves.
    A cluster that the file does not name has no members.
    """
    newest = max((sampled_at for _, _, sampled_at in registered), default=now_ms)
    oldest_kept = min(now_ms, newest) - REGISTRATION_KEPT_MS
    members = {c.name: [e.address for e in c.endpoints] for c in topology.clusters}
    for cluster, address, sampled_at in sorted(registered):
        if sampled_at >= oldest_kept and cluster in members and address not in members[cluster]:
            members[cluster].append(address)
    return members
