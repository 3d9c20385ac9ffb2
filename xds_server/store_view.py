"""What the store last said, kept where it says nothing: a Redis that was emptied empties no Envoy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Final

from tidegate.domain.sample import EndpointSample

REGISTRATION_GRACE_MS: Final = 600_000
"""An endpoint that only an agent registered goes this long after it was last seen."""

Place = tuple[str, str]
"""Cluster name and endpoint address."""


@dataclass(frozen=True, slots=True)
class StoreView:
    """Weights by cluster and address; when each registered place was last seen; the newest samples; the names that
    each place listed last.

    `read_at_ms` is when the store was read: ages count from there, so that a view does not go stale by itself.
    """

    weights: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    registered: Mapping[Place, int] = field(default_factory=dict)
    samples: Mapping[Place, EndpointSample] = field(default_factory=dict)
    listed: Mapping[Place, tuple[str, ...]] = field(default_factory=dict)
    read_at_ms: int = 0

    def updated(
        self,
        *,
        weights: Mapping[str, Mapping[str, int]],
        registered: Iterable[tuple[str, str, int]],
        samples: Iterable[EndpointSample],
        departed: AbstractSet[Place] = frozenset(),
        now_ms: int,
    ) -> StoreView:
        """This view after one successful reading.

        Weights of a cluster that the store no longer mentions stay; so do registered endpoints and the names that
        they listed, until REGISTRATION_GRACE_MS after they were last seen.
        What departed left on purpose, and goes at once.
        """
        seen = {**self.registered, **{(cluster, address): at for cluster, address, at in registered}}
        kept = {p: at for p, at in seen.items() if now_ms - at <= REGISTRATION_GRACE_MS}
        there = {p: at for p, at in kept.items() if p not in departed}
        newest = {(s.cluster, s.address): s for s in samples}
        listed = {**self.listed, **{place: s.models for place, s in newest.items() if s.models}}
        return StoreView(
            weights={**self.weights, **{cluster: w for cluster, w in weights.items() if w}},
            registered=there,
            samples=newest,
            listed={place: names for place, names in listed.items() if place in there or place in newest},
            read_at_ms=now_ms,
        )
