"""`tidegate status`: the state of the cluster as a table, or as JSON for machines."""

from __future__ import annotations

import datetime as dt
import json
from typing import Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from tidegate.cli.acts import action_line
from tidegate.cli.connection import Target, on_cluster
from tidegate.cli.look import age, new_console
from tidegate.cli.outcomes import seen_line, slo_line
from tidegate.cli.report import gather
from tidegate.domain.lifetime import time_text
from tidegate.runtime import now_ms


@on_cluster
def status(
    target: Target,
    json_output: Annotated[bool, typer.Option("--json", help="print JSON instead of tables")] = False,
) -> None:
    """Show clusters, replicas, weights, services and Envoys. Exits 1 when Redis cannot be asked."""
    report = target.ask(lambda store: gather(store, target.topology, now_ms()))
    if json_output:
        print(json.dumps(report, indent=1))
    else:
        _print(report)
    if not report["redis"]["reachable"]:
        raise typer.Exit(1)


def _print(report: dict[str, Any]) -> None:
    console = new_console()
    if report["redis"]["error"]:
        console.print(f"[red]{escape(report['redis']['error'])}[/]")
    console.print(_replicas(report))
    for name, instances in report["services"].items():
        here = ", ".join(_instance(one) for one in instances)
        console.print(f"{name:>10}: {here or '[red]absent[/]'}")
    for envoy in report["envoys"]:
        silent = "" if envoy.get("tells_outcomes") else "; tells no outcomes"
        console.print(f"     Envoy: {envoy['node']}: {_envoy(envoy)}{silent}")
    for name, queue in report["queues"].items():
        if queue["waiting"]:
            oldest = f", the oldest for {age(queue['oldest_ms'])}" if queue["oldest_ms"] is not None else ""
            console.print(f"     queue: {name}: {queue['waiting']} requests wait in the gateway{oldest}")
    _print_outcomes(console, report)
    _print_scale(console, report)
    for cluster in report["clusters"]:
        for e in cluster["endpoints"]:
            for line in _orders(e):
                console.print(f"{line[0]:>10}: {cluster['name']} {e['address']}{line[1]}", markup=False)
    _print_interventions(console, report)


def _print_interventions(console: Console, report: dict[str, Any]) -> None:
    """What acts and rollouts do, and what operators typed that is not done."""
    for one in report["rollouts"]:
        line = f"{one['model']} to {one['to'] or '-'}: {one['place']}: {one['why']}"
        console.print(f"   rollout: {line}", markup=False, soft_wrap=True)
    for act in report["actions"]:
        console.print(f"    action: {action_line(act)}", markup=False)
    for key, why in report["rejected"].items():
        console.print(f"[yellow]  rejected: {escape(key)}: {escape(why)}[/]")


def _print_outcomes(console: Console, report: dict[str, Any]) -> None:
    for cluster in report["clusters"]:
        if cluster["outcomes"] is not None:
            console.print(f"  outcomes: {cluster['name']}: {seen_line(cluster['outcomes'])}", markup=False)
    for one in report["slos"]:
        console.print(f"       slo: {slo_line(one)}", markup=False, style="red" if one["burns"] else None)


def _instance(one: dict[str, Any]) -> str:
    """When a process was last heard of, and when its certificate ends."""
    ago = f"{one['age_ms'] / 1000:.1f} s ago"
    if (ends := one.get("tls_not_after_ms")) is None:
        return f"{one['instance']} ({ago})"
    day = dt.datetime.fromtimestamp(ends / 1000, dt.UTC)
    return f"{one['instance']} ({ago}, certificate until {day:%Y-%m-%d %H:%M} UTC)"


def _orders(e: dict[str, Any]) -> list[tuple[str, str]]:
    """Orders that are worth a line: drains with their reasons, and pins that end by themselves."""
    lines = []
    if e["drained"] is not None:
        lines.append(("drained", f": {repr(e['drained'])[1:-1]}{_until(e['drained_until_ms'])}"))
    if e["pinned_until_ms"] is not None:
        lines.append(("pinned", _until(e["pinned_until_ms"])))
    return lines


def _until(at_ms: int | None) -> str:
    return "" if at_ms is None else f" until {time_text(at_ms)}"


def _envoy(envoy: dict[str, Any]) -> str:
    """Whether an Envoy has all it was sent."""
    waiting = envoy.get("oldest_unacked_ms")
    if refusing := envoy.get("refusing", sorted(envoy.get("nacked", {}))):
        refused = ", ".join(refusing)
        return f"[red]refused {refused}: {escape(envoy.get('last_error') or 'no reason given')}[/]"
    return "up to date" if waiting is None else f"[yellow]has not answered a push for {waiting / 1000:.1f} s[/]"


def _print_scale(console: Console, report: dict[str, Any]) -> None:
    for cluster in report["clusters"]:
        if said := _scale_line(cluster):
            console.print(f"     scale: {said}", markup=False, soft_wrap=True)


def _scale_line(cluster: dict[str, Any]) -> str | None:
    """What a cluster should have, where that is not what it has, or somebody ordered it."""
    scale = cluster["scale"]
    if scale is None:
        return None
    serve = sum(e["status"] in {"ready", "idle"} and e["drained"] is None for e in cluster["endpoints"])
    if scale["desired"] == serve and scale["reason"] not in {"operator", "alert"}:
        return None
    return f"{cluster['name']}: {scale['desired']} wanted, {serve} serve: {scale['reason']}: {scale['why']}"


def _replicas(report: dict[str, Any]) -> Table:
    view = Table(box=box.SIMPLE_HEAD, padding=0)
    for column in ("cluster", "scale", "replica", "status", "run", "wait", "KV", "weight", "load", "age"):
        right = column in {"scale", "run", "wait", "KV", "weight", "load", "age"}
        view.add_column(column, justify="right" if right else "left", no_wrap=True)
    for cluster in report["clusters"]:
        label = cluster["name"] if cluster["lb"] else f"{cluster['name']} (not in the file)"
        wanted = str(cluster["scale"]["desired"]) if cluster["scale"] else "-"
        for e in cluster["endpoints"] or [None]:
            view.add_row(label, wanted, *(_row(e) if e else ("[red]no replica[/]",)))
            label = wanted = ""
    return view


def _row(e: dict[str, Any]) -> tuple[str, ...]:
    drained = e["drained"] is not None
    good = e["status"] in {"ready", "idle"} and not drained
    weight = "-" if e["weight"] is None else f"{e['weight']}{' pin' if e['pinned'] else ''}"
    return (
        e["address"],
        f"[{'green' if good else 'red'}]{'drained' if drained else e['status']}[/]",
        _number(e["running"]),
        _number(e["waiting"]),
        "-" if e["kv_used_ratio"] is None else f"{e['kv_used_ratio']:.0%}",
        weight,
        "-" if e["load"]["total"] is None else f"{e['load']['total']:.2f}",
        "-" if e["age_ms"] is None else f"{e['age_ms'] / 1000:.1f} s",
    )


def _number(value: int | None) -> str:
    return "-" if value is None else str(value)
