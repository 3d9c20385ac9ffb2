"""Which replicas each cluster has: those of the file, then those that agents registered."""

from __future__ import annotations

from tidegate.domain.membership import Membership
from tidegate.domain.topology import Topology

Roster = dict[str, list[str]]


def roster(topology: Topology, membership: Membership) -> Roster:
    """Addresses by cluster: the file's in file order, then registered ones by name.

    A cluster that the file does not name has no members.
    """
    members = {c.name: [e.address for e in c.endpoints] for c in topology.clusters}
    for cluster, address in sorted(membership.members):
        if cluster in members and address not in members[cluster]:
            members[cluster].append(address)
    return members
