"""What the store last said, kept where it says nothing: a Redis that was emptied empties no Envoy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace

from tidegate.domain.actions.effects import NONE, Effects
from tidegate.domain.membership import Membership, Place
from tidegate.domain.sample import EndpointSample


@dataclass(frozen=True, slots=True)
class StoreView:
    """Weights by cluster and address; who registered; the newest samples; each place's names and node in its last.

    `tunes` are those in force, `tuned` all that the controller accepted, splits among them; `effects` those of acts.
    `read_at_ms` is when samples were read: ages count from there, so that a view does not go stale by itself.
    """

    weights: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    membership: Membership = field(default_factory=Membership)
    samples: Mapping[Place, EndpointSample] = field(default_factory=dict)
    listed: Mapping[Place, tuple[str, ...]] = field(default_factory=dict)
    nodes: Mapping[Place, str] = field(default_factory=dict)
    read_at_ms: int = 0
    tunes: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    tuned: Mapping[str, str] = field(default_factory=dict)
    effects: Effects = NONE

    def updated(
        self,
        *,
        weights: Mapping[str, Mapping[str, int]],
        registered: Iterable[tuple[str, str, int]],
        samples: Iterable[EndpointSample] | None,
        departed: AbstractSet[Place] = frozenset(),
        tunes: Mapping[str, Mapping[str, str]] | None = None,
        tuned: Mapping[str, str] | None = None,
        effects: Effects | None = None,
        now_ms: int,
    ) -> StoreView:
        """This view after one successful reading.

        Weights of a cluster that the store no longer mentions stay; so do endpoints that are members, the names that
        they listed, and their nodes. What departed left on purpose, and goes at once. A store without any weight was
        emptied: what was tuned, and acts, stay. `samples` are None where they were not read.
        """
        membership = self.membership.after(registered, now_ms, departed)
        there = membership.members
        newest = self.samples if samples is None else {(s.cluster, s.address): s for s in samples}
        listed = {**self.listed, **{place: s.models for place, s in newest.items() if s.models}}
        nodes = {**self.nodes, **{place: s.node for place, s in newest.items()}}
        return replace(
            self.ordered(weights, self.tunes if tunes is None else tunes, tuned, effects),
            membership=membership,
            samples=newest,
            listed={place: names for place, names in listed.items() if place in there or place in newest},
            nodes={place: node for place, node in nodes.items() if place in there or place in newest},
            read_at_ms=self.read_at_ms if samples is None else now_ms,
        )

    def ordered(
        self,
        weights: Mapping[str, Mapping[str, int]],
        tunes: Mapping[str, Mapping[str, str]],
        tuned: Mapping[str, str] | None = None,
        effects: Effects | None = None,
    ) -> StoreView:
        """This view after a look at weights, acts and what the controller accepted, under the rules of `updated`."""
        there = any(weights.values())
        return replace(
            self,
            weights={**self.weights, **{cluster: w for cluster, w in weights.items() if w}},
            tunes=tunes if there else self.tunes,
            tuned=tuned if there and tuned is not None else self.tuned,
            effects=effects if there and effects is not None else self.effects,
        )
