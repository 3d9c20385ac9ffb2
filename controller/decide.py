"""One look at the world and one decision about it, as values."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from controller.refused import told
from controller.roster import roster
from controller.state import State
from tidegate.domain import ewma, load, weight_settings
from tidegate.domain.actions.act import WEIGHTS
from tidegate.domain.actions.effects import NONE, Effects
from tidegate.domain.actions.layers import Acted, acted
from tidegate.domain.membership import Membership
from tidegate.domain.operators import Intent, read_orders
from tidegate.domain.sample import EndpointSample
from tidegate.domain.split import judge
from tidegate.domain.topology import Cluster, Precision, Topology
from tidegate.domain.tuning import Tunes, check_tunes, flat, good_tunes, typed_for, without_most_unknown
from tidegate.domain.weights import Decision, Replica, Rules, decide
from tidegate.store.ports import ClusterDecision, RawOperatorKeys


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """What the store said at `now_ms` (Unix milliseconds).

    `looked` are the clusters to decide on, whose samples are of this look; None: all.

    `entropies` (0…1) are the request-class mixes by cluster and address, where pickers tell them; `latencies` (ms) are
    the p99 as Envoy saw them, for replicas whose engines tell none. `strays` are operators' keys that are for nobody,
    and why, as found a while ago.
    """

    now_ms: int
    keys: RawOperatorKeys
    samples: Sequence[EndpointSample]
    membership: Membership
    looked: Collection[str] | None = None
    entropies: Mapping[tuple[str, str], float] = field(default_factory=dict)
    latencies: Mapping[tuple[str, str], float] = field(default_factory=dict)
    strays: Mapping[str, str] = field(default_factory=dict)
    effects: Effects = NONE


def decide_all(
    topology: Topology, world: World, before: State, *, sample_ttl_ms: int, rules: Rules
) -> tuple[State, list[ClusterDecision]]:
    """The state after this look, and a decision for every cluster that was looked at."""
    members = roster(topology, world.membership)
    intent = read_orders(
        world.keys.weights, world.keys.drains, members, before.intent, world.keys.broken, now_ms=world.now_ms
    )
    typed, refused_tunes = without_most_unknown(world.keys.tunes)
    tunes = good_tunes(typed, before.tuned, world.keys.broken)
    refused_tunes |= check_tunes(typed, before.tuned)
    splits = judge(world.keys.splits, topology.versions, before.tuned, world.keys.broken)
    refused = {**world.strays, **splits.rejected, **intent.rejected, **refused_tunes}
    intent = replace(intent, rejected=told(refused))
    samples = {(s.cluster, s.address): s for s in world.samples}
    decisions, memories = [], {}
    for cluster in topology.clusters:
        if world.looked is not None and cluster.name not in world.looked:
            continue
        replicas = [_replica(cluster, address, samples, intent, before, world) for address in members[cluster.name]]
        decided = decide(
            replicas,
            kind=cluster.kind,
            now_ms=world.now_ms,
            sample_ttl_ms=sample_ttl_ms,
            rules=rules_of(cluster.name, tunes, rules),
        )
        layered = _acted(cluster.name, decided, before, world.effects)
        memories[cluster.name] = {one.decision.address: one.decision.memory for one in layered}
        decisions.append(_published(cluster.name, layered, intent))
    tuned = {**flat(tunes), **splits.in_force}
    explained = {**before.explained, **{d.cluster: d.explain or {} for d in decisions}}
    return State(intent, explained, tuned, {**before.memories, **memories}), decisions


def rules_of(cluster: str, tunes: Tunes, base: Rules) -> Rules:
    """The rules of one cluster: `base`, with what `tune` and then `tune:{cluster}` set. `tunes` hold no bad value."""
    fields = typed_for(cluster, tunes)
    if not fields:
        return base
    return Rules(
        load=load.tuned(base.load, fields, base.load)[0],
        weight=weight_settings.tuned(base.weight, fields, base.weight)[0],
        ewma=ewma.tuned(base.ewma, fields, base.ewma)[0],
    )


def _replica(
    cluster: Cluster,
    address: str,
    samples: Mapping[tuple[str, str], EndpointSample],
    intent: Intent,
    before: State,
    world: World,
) -> Replica:
    place = (cluster.name, address)
    sample = samples.get(place)
    if sample is not None and sample.latency_p99_ms is None and place in world.latencies:
        sample = replace(sample, latency_p99_ms=world.latencies[place])
    return Replica(
        address=address,
        precision=_precision(sample, cluster),
        sample=sample,
        entropy=world.entropies.get(place),
        pinned=intent.pins.get(cluster.name, {}).get(address),
        drained=intent.drains.get(cluster.name, {}).get(address),
        memory=before.memory(cluster.name, address),
    )


_PRECISIONS: Final[Mapping[str, Precision]] = {one.value: one for one in Precision}


def _precision(sample: EndpointSample | None, cluster: Cluster) -> Precision:
    """What the replica says of itself, where that is a known format, else what the file says of its cluster."""
    told = sample.precision if sample else None
    return _PRECISIONS.get(told, cluster.precision) if told else cluster.precision


def _acted(cluster: str, decided: Sequence[Decision], before: State, effects: Effects) -> list[Acted]:
    """What acts make of a cluster's decisions. A frozen weight is in `explain`, so that a successor keeps it."""
    said = before.explained.get(cluster, {})
    stay = {address: why["frozen"] for address, why in said.items() if isinstance(why.get("frozen"), int)}
    last = {one.address: memory.automatic for one in decided if (memory := before.memory(cluster, one.address))}
    frozen = stay if WEIGHTS in effects.frozen else None
    return acted(decided, effects.reduced.get(cluster, {}), frozen, last)


def _published(cluster: str, layered: Sequence[Acted], intent: Intent) -> ClusterDecision:
    decided = [one.decision for one in layered]
    by_acts = [{k: v for k, v in (("act", one.act), ("frozen", one.frozen)) if v is not None} for one in layered]
    return ClusterDecision(
        cluster=cluster,
        effective={d.address: d.weight for d in decided},
        explain={
            d.address: {**d.explain(), **_ends(cluster, d.address, intent), **by_act}
            for d, by_act in zip(decided, by_acts, strict=True)
        },
    )


def _ends(cluster: str, address: str, intent: Intent) -> dict[str, Any]:
    """When the operator's orders end, in Unix milliseconds, where they do."""
    names = {"pinned_until_ms": f"weight:{cluster} {address}", "drained_until_ms": f"drain:{cluster} {address}"}
    return {field: intent.until_ms[name] for field, name in names.items() if name in intent.until_ms}
