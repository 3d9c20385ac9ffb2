"""`tidegate explain`: why each replica has the weight that it has, as a table and in words."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import typer
from rich.markup import escape

from tidegate.cli.connection import Target, on_cluster
from tidegate.cli.look import age, bar, new_console, new_table
from tidegate.cli.orders import Scene, known_cluster, known_replica, look
from tidegate.domain.actions.act import Act
from tidegate.domain.lifetime import duration_text
from tidegate.domain.load import LoadWeights
from tidegate.domain.shares import shares
from tidegate.domain.tuning import REGISTRY, in_force
from tidegate.store.ports import Store

PARTS = ("latency", "vram", "entropy")
PART_WORDS = {"latency": "p99 latency", "vram": "memory in use", "entropy": "request mix"}


@on_cluster
def explain(
    target: Target,
    cluster: Annotated[str, typer.Argument(help="cluster name")],
    endpoint: Annotated[str | None, typer.Argument(help="host:port; without it, every replica")] = None,
    json_output: Annotated[bool, typer.Option("--json", help="print JSON instead")] = False,
) -> None:
    """Say why each replica of a cluster has its weight: the load's parts, capacity, and who ordered what."""

    async def ask(store: Store) -> tuple[Scene, Mapping[str, Any], dict[str, str], dict[str, Act]]:
        scene = await look(store, target)
        acts = {act.id: act for act in await store.acts()}
        return scene, (await store.explain([cluster]))[cluster], await store.rejected(), acts

    scene, why, rejected, acts = target.ask(ask)
    known_cluster(scene, cluster)
    if endpoint is not None:
        known_replica(scene, cluster, endpoint, force=False)
    report = _report(scene, cluster, endpoint, why, rejected)
    for one in report["replicas"]:
        one["acts"] = [_act(acts[name]) for name in (one.get("act"),) if name in acts]
    if json_output:
        print(json.dumps(report, indent=1))
    else:
        _print(report, scene.now_ms)


def _report(
    scene: Scene, cluster: str, endpoint: str | None, why: Mapping[str, Any], rejected: Mapping[str, str]
) -> dict[str, Any]:
    """The cluster as JSON: `replicas` with everything of `explain:`, tunes in force there, and what was refused."""
    part = shares(scene.replicas[cluster])
    good = scene.keys.good_tunes()
    return {
        "cluster": cluster,
        "replicas": [
            {**why.get(r.address, {}), "address": r.address, "weight": r.weight, "traffic_ratio": part[r.address]}
            for r in scene.replicas[cluster]
            if endpoint in {None, r.address}
        ],
        "load_weights": _load_weights(cluster, good),
        "tuned": {
            name: {"value": text, "from": origin}
            for name in REGISTRY
            for text, origin in [in_force(name, cluster, good)]
            if text is not None
        },
        "rejected": {key: said for key, said in rejected.items() if _concerns(key, cluster)},
    }


def _act(act: Act) -> dict[str, Any]:
    """Whom to ask why a replica is reduced: the rule, what made it act, and since when."""
    return {"id": act.id, "rule": act.rule, "cause": act.cause, "since_ms": act.since_ms, "until_ms": act.until_ms}


def _load_weights(cluster: str, good: Mapping[str, Mapping[str, str]]) -> dict[str, float]:
    defaults = LoadWeights()
    texts = {part: in_force(f"load.{part}", cluster, good)[0] for part in PARTS}
    return {part: getattr(defaults, part) if text is None else float(text) for part, text in texts.items()}


def _concerns(key: str, cluster: str) -> bool:
    head = key.partition(" ")[0]
    return head == "tune" or head.partition(":")[2] == cluster


def _print(report: Mapping[str, Any], now_ms: int) -> None:
    console = new_console()
    table = new_table("replica", " weight", "", " share", "", " capacity", " latency", " memory", " mix", " load", "")
    for one in report["replicas"]:
        load = one.get("load") or {}
        share = one["traffic_ratio"]
        table.add_row(
            one["address"],
            f" {_shown(one['weight'])}",
            f" {bar((one['weight'] or 0) / 1000, 8)}",
            f" {'-' if share is None else f'{share:.1%}'}",
            f" {bar(share, 8)}",
            f" {_number(one.get('capacity'))}",
            *(f" {_number(load.get(part))}" for part in (*PARTS, "total")),
            f" {bar(load.get('total'), 8)}",
        )
    console.print(table)
    for one in report["replicas"]:
        console.print(f"[bold]{escape(one['address'])}[/]")
        for sentence in words(one, report["load_weights"], now_ms):
            console.print(f"  {sentence}", markup=False, soft_wrap=True)
    if report["tuned"]:
        tuned = ", ".join(f"{name} {one['value']} ({one['from']})" for name, one in report["tuned"].items())
        console.print(f"tuned: {tuned}", markup=False, soft_wrap=True)
    for key, said in report["rejected"].items():
        console.print(f"[yellow]rejected: {escape(key)}: {escape(said)}[/]", soft_wrap=True)


def words(one: Mapping[str, Any], weights: Mapping[str, float], now_ms: int) -> Iterator[str]:
    """Why one replica has its weight, a sentence a line. `weights` are those of the load's parts."""
    if "reason" not in one:
        yield "No controller has explained this replica yet."
        return
    share = one.get("traffic_ratio")
    part = "" if share is None else f", {share:.1%} of the cluster's traffic by weight"
    yield f"Its weight is {_shown(one['weight'])} of 1000{part}: {_printable(one['reason'])}."
    for act in one.get("acts", ()):
        since = age(now_ms - act["since_ms"])
        yield f"Act {act['id']} of rule {act['rule']} holds for {since}: {_printable(act['cause'])}."
    orders = list(_orders(one, now_ms))
    yield from orders
    if orders and one.get("automatic") is not None:
        yield f"Without the order its weight would be {one['automatic']}."
    yield from _load_words(one.get("load") or {}, weights)
    yield from _average_words(one)
    yield _sample_words(one)


def _orders(one: Mapping[str, Any], now_ms: int) -> Iterator[str]:
    for what, end in (("pinned", "pinned_until_ms"), ("drained", "drained_until_ms")):
        if one.get(what) is not None:
            until = one.get(end)
            left = "until the key is deleted" if until is None else f"for {duration_text(until - now_ms)} more"
            yield f"It is {what} by an operator, {left}."


def _load_words(load: Mapping[str, Any], weights: Mapping[str, float]) -> Iterator[str]:
    known = [part for part in PARTS if load.get(part) is not None]
    if load.get("total") is None or not known:
        yield "Its load is unknown: nothing that it reports tells it."
        return
    scale = sum(weights[part] for part in known) or 1.0
    terms = " + ".join(f"{weights[part] / scale:.2f} x {load[part]:.2f} ({PART_WORDS[part]})" for part in known)
    missing = [PART_WORDS[part] for part in PARTS if part not in known]
    left_out = f"; {' and '.join(missing)} unknown, so the others count more" if missing else ""
    yield f"Its load is {load['total']:.2f} = {terms}{left_out}."


def _average_words(one: Mapping[str, Any]) -> Iterator[str]:
    if (capacity := one.get("capacity")) is not None:
        yield f"Its capacity is {capacity:.2f} of the cluster's largest."
    if one.get("smoothed") is not None and one.get("steady") is not None:
        seconds = one.get("averaged_seconds") or 0.0
        yield (
            f"Averaged, its share is {one['smoothed']:.3f} by the window of the last looks "
            f"and {one['steady']:.3f} over {seconds:.0f} s, which its weight follows."
        )
    if (ramping := one.get("ramping_seconds")) is not None:
        yield f"It began to serve {ramping:.0f} s ago and is ramping up."


def _sample_words(one: Mapping[str, Any]) -> str:
    if one.get("stale"):
        seen = "never" if one.get("age_ms") is None else f"{age(one['age_ms'])} ago"
        return f"No fresh sample tells its state; it was last sampled {seen}."
    return f"Its agent says {one.get('status')}, {age(one.get('age_ms'))} ago."


def _printable(said: str) -> str:
    return "".join(ch if ch.isprintable() else "�" for ch in said)


def _shown(value: object) -> str:
    return "-" if value is None else str(value)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
