"""Which replicas that agents registered belong to the fleet: silence of one is told from silence of all.

Redis may be away, emptied or set back, and every agent with it. Then nobody left. A replica goes when it said so, or
when it alone was silent for long while others were heard.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

GRACE_MS: Final = 600_000
"""How long a replica is missed before it goes: longer than an agent's host takes to boot."""
MOST_STEP_MS: Final = 5_000
"""Of the time between two looks, what counts as silence: who does not look misses nobody."""

Place = tuple[str, str]
"""Cluster name and address."""


@dataclass(frozen=True)
class Membership:
    """Who was heard when (`sampled_at_ms` of the index), for how long each was missed since, and who is a member.

    Fold one look at the store after the other with `after`; every service that does so comes to the same members.
    """

    heard_ms: Mapping[Place, int] = field(default_factory=dict)
    missed_ms: Mapping[Place, int] = field(default_factory=dict)
    looked_at_ms: int | None = None
    members: frozenset[Place] = frozenset()

    @cached_property
    def by_cluster(self) -> Mapping[str, Collection[str]]:
        """The addresses of each cluster that has a member."""
        found: dict[str, set[str]] = {}
        for cluster, address in self.members:
            found.setdefault(cluster, set()).add(address)
        return found

    def after(
        self, registered: Iterable[tuple[str, str, int]], now_ms: int, departed: AbstractSet[Place] = frozenset()
    ) -> Membership:
        """What one successful look at the index adds: (cluster, address, sampled_at_ms) of each, and who left.

        One that is seen for the first time counts from its last sample, measured against the newest of all. An index
        that lacks somebody says nothing about it. `now_ms` and samples are Unix milliseconds of one clock.
        """
        index = {(cluster, address): at for cluster, address, at in registered}
        newest = max(index.values(), default=0)
        news = {place for place, at in index.items() if at > self.heard_ms.get(place, at - 1)}
        step = 0 if self.looked_at_ms is None else min(max(0, now_ms - self.looked_at_ms), MOST_STEP_MS)
        missed = {}
        for place in (self.heard_ms.keys() | index.keys()) - departed:
            if place not in self.heard_ms:
                missed[place] = newest - index[place]
            elif place in news:
                missed[place] = 0
            else:
                missed[place] = self.missed_ms[place] + (step if news else 0)
        known = {place: ms for place, ms in missed.items() if ms < GRACE_MS or place in index}
        heard = {place: index.get(place, self.heard_ms.get(place, 0)) for place in known}
        return Membership(heard, known, now_ms, frozenset(place for place, ms in known.items() if ms < GRACE_MS))
