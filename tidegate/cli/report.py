"""What `tidegate status` says, as plain values in the shape that `docs/cli.md` documents."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from tidegate.cli.acts import actions_values
from tidegate.cli.outcomes import seen_values, slo_values
from tidegate.cli.rollout_view import values
from tidegate.domain.errors import StoreError
from tidegate.domain.outcomes.report import Seen, cluster_seen, models_seen, replicas_seen
from tidegate.domain.sample import EndpointSample
from tidegate.domain.scaling.rule import Course
from tidegate.domain.topology import Topology
from tidegate.store.ports import Store

SERVICES = ("agent", "controller", "xds", "ext_proc", "outcomes")
ROLLOUT_SHOWN: Final = ("model", "phase", "place", "from", "to", "share_permille", "verdict", "why")
ROLLOUT_ENDED: Final = frozenset({"done", "rolled_back", "aborted"})
EMPTY_QUEUE: Final[Mapping[str, Any]] = {"waiting": 0, "bytes": 0, "oldest_ms": None, "priorities": {}, "classes": {}}
NO_LOAD: dict[str, float | None] = {"latency": None, "vram": None, "entropy": None, "total": None}


async def gather(store: Store, topology: Topology | None, now_ms: int) -> dict[str, Any]:
    """Everything the store knows about the cluster. A store that does not answer gives an empty report with `error`.

    Age is in milliseconds, weights are 0…1000, ratios lie in [0, 1]; unknown is None.
    """
    try:
        return await _gather(store, topology, now_ms)
    except StoreError as exc:
        return {
            "clusters": [_cluster(place, {}, {}, {}, {}, None, now_ms) for place in _of_topology(topology)],
            "leader": None,
            "rejected": {},
            "envoys": [],
            "services": {name: [] for name in SERVICES},
            "queues": {},
            "slos": slo_values(topology.slos if topology else (), {}),
            "actions": [],
            "rollouts": [],
            "redis": {"reachable": False, "error": str(exc)},
        }


async def _gather(store: Store, topology: Topology | None, now_ms: int) -> dict[str, Any]:
    present = await store.present()
    store_now_ms = round(await store.time_ms())  # samples are dated by it, beats by the services' own clocks
    registered = await store.registered()
    samples = {(s.cluster, s.address): s for s in await store.samples()}
    places = _places(topology, present, registered)
    names = [place["name"] for place in places]
    effective, explain = await store.effective(names), await store.explain(names)
    targets = await store.targets(names)
    for name, address, _ in registered:
        place = next(p for p in places if p["name"] == name)
        if address not in place["addresses"]:
            place["addresses"].append(address)
    xds = [info for _, info in sorted(present.get("xds", {}).items())]
    lead = await store.leader()
    heard = {node for info in present.get("outcomes", {}).values() for node in info.get("envoys", ())}
    slos = topology.slos if topology else ()
    told = await store.outcomes(names, [slo.model for slo in slos])
    seen = replicas_seen(told)
    return {
        "clusters": [
            _cluster(
                place,
                {a: s for (n, a), s in samples.items() if n == place["name"]},
                effective.get(place["name"], {}),
                explain.get(place["name"], {}),
                seen.get(place["name"], {}),
                targets.get(place["name"]),
                store_now_ms,
            )
            for place in places
        ],
        "leader": lead.instance if lead else None,
        "actions": actions_values(await store.acts()),
        "rollouts": await _rollouts(store, topology),
        "rejected": await store.rejected() | {key: why for info in xds for key, why in info.get("refused", {}).items()},
        "envoys": [
            envoy | {"tells_outcomes": envoy["node"] in heard} for info in xds for envoy in info.get("envoys", [])
        ],
        "services": _services(present, now_ms),
        "queues": _queues(present.get("ext_proc", {})),
        "slos": slo_values(slos, models_seen(told)),
        "redis": {"reachable": True, "error": await _write_trouble(store)},
    }


def _services(present: Mapping[str, Mapping[str, Mapping[str, Any]]], now_ms: int) -> dict[str, list[dict[str, Any]]]:
    """The instances of each service: known ones first, and without any where none is there."""
    return {
        name: [
            {
                "instance": instance,
                "age_ms": max(0, now_ms - int(info.get("beat_at_ms", now_ms))),
                "tls_not_after_ms": info.get("tls_not_after_ms"),
            }
            for instance, info in sorted(present.get(name, {}).items())
        ]
        for name in dict.fromkeys((*SERVICES, *present))
    }


async def _rollouts(store: Store, topology: Topology | None) -> list[dict[str, Any]]:
    """Those that have not ended: asked for, refused, going on or paused."""
    models = topology.split_models if topology is not None else list((await store.rollouts(()))[1])
    told = [values(model, fields) for model, fields in sorted((await store.rollouts(models))[0].items())]
    return [{name: one[name] for name in ROLLOUT_SHOWN} for one in told if one["phase"] not in ROLLOUT_ENDED]


def _queues(pickers: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """What waits in the gateway by cluster, over all instances of ext_proc: requests, bytes, the oldest one's wait.

    `priorities` and `classes` are the requests by each.
    """
    found: dict[str, dict[str, Any]] = {}
    for info in pickers.values():
        for cluster, queue in (info.get("queues") or {}).items():
            total = found.setdefault(cluster, dict(EMPTY_QUEUE))
            total["waiting"] += queue.get("waiting") or 0
            total["bytes"] += queue.get("bytes") or 0
            waits = [ms for ms in (total["oldest_ms"], queue.get("oldest_ms")) if ms is not None]
            total["oldest_ms"] = max(waits, default=None)
            for kind in ("priorities", "classes"):
                total[kind] = dict(Counter(total[kind]) + Counter(queue.get(kind) or {}))
    return found


async def _write_trouble(store: Store) -> str | None:
    """Why the store takes no writes: then what is read here grows old, and beats are missing of services that live."""
    try:
        await store.ping()
    except StoreError as exc:
        return str(exc)
    return None


def _of_topology(topology: Topology | None) -> list[dict[str, Any]]:
    return [
        {
            "name": c.name,
            "models": list(c.models),
            "lb": str(c.lb),
            "addresses": [e.address for e in c.endpoints],
        }
        for c in (topology.clusters if topology else ())
    ]


def _places(
    topology: Topology | None,
    present: Mapping[str, Mapping[str, Mapping[str, Any]]],
    registered: list[tuple[str, str, int]],
) -> list[dict[str, Any]]:
    """The clusters: of the file at hand, else of what xds says it serves; and those that only agents know."""
    places = _of_topology(topology)
    if not places:
        served = [info.get("clusters", []) for info in present.get("xds", {}).values()]
        places = [{**c, "addresses": list(c.get("addresses", []))} for c in (served[0] if served else [])]
    known = {place["name"] for place in places}
    unknown = sorted({name for name, _, _ in registered} - known)
    return places + [{"name": name, "models": [], "lb": None, "addresses": []} for name in unknown]


def _cluster(
    place: Mapping[str, Any],
    samples: Mapping[str, EndpointSample],
    weights: Mapping[str, int],
    why: Mapping[str, Mapping[str, Any]],
    seen: Mapping[str, Seen],
    course: Course | None,
    now_ms: int,
) -> dict[str, Any]:
    total = sum(weights.get(address) or 0 for address in place["addresses"])
    return {
        "name": place["name"],
        "models": place["models"],
        "lb": place["lb"],
        "scale": _scale(course),
        "outcomes": seen_values(cluster_seen(seen.values())),
        "endpoints": [
            _endpoint(address, samples.get(address), weights.get(address), total, why.get(address, {}), now_ms)
            | {"outcomes": seen_values(seen.get(address))}
            for address in place["addresses"]
        ],
    }


def _scale(course: Course | None) -> dict[str, Any] | None:
    """How many replicas the cluster should have; None where no controller has decided."""
    if course is None:
        return None
    target = course.target
    return {
        "desired": target.desired,
        "reason": target.reason.value,
        "since_ms": target.since_ms,
        "why": target.why,
        "automatic": course.automatic.desired,
    }


def _endpoint(
    address: str, sample: EndpointSample | None, weight: int | None, total: int, why: Mapping[str, Any], now_ms: int
) -> dict[str, Any]:
    """`status` is "unknown" for a replica that no agent has a sample of; `stale`: it keeps its last weight unseen.

    `total` is the sum of the cluster's weights.
    """
    return {
        "address": address,
        "status": str(sample.status) if sample else "unknown",
        "running": sample.running if sample else None,
        "waiting": sample.waiting if sample else None,
        "kv_used_ratio": sample.kv_used_ratio if sample else None,
        "weight": weight,
        "share": None if weight is None else weight / total if total else 0.0,
        "pinned": why.get("pinned") is not None,
        "pinned_until_ms": why.get("pinned_until_ms"),
        "drained": why.get("drained"),
        "drained_until_ms": why.get("drained_until_ms"),
        "load": NO_LOAD | dict(why.get("load") or {}),
        "age_ms": sample.age_ms(now_ms) if sample else None,
        "stale": bool(why.get("stale")),
        "latency_p99_ms": sample.latency_p99_ms if sample else None,
        "tokens_per_second": sample.tokens_per_second if sample else None,
        "prompts_total": sample.prompts_total if sample else None,
        "sampled_at_ms": sample.sampled_at_ms if sample else None,
    }
