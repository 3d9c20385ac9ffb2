"""`tidegate status`: the state of the cluster as a table, or as JSON for machines."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from tidegate.cli.connection import ConfigOption, PrefixOption, RedisOption, find_target
from tidegate.cli.report import gather
from tidegate.runtime import now_ms


def status(
    json_output: Annotated[bool, typer.Option("--json", help="print JSON instead of tables")] = False,
    config: ConfigOption = None,
    redis_url: RedisOption = None,
    redis_prefix: PrefixOption = None,
) -> None:
    """Show clusters, replicas, weights, services and Envoys. Exits 1 when Redis cannot be asked."""
    target = find_target(config, redis_url, redis_prefix)
    report = target.ask(lambda store: gather(store, target.topology, now_ms()))
    if json_output:
        print(json.dumps(report, indent=1))
    else:
        _print(report)
    if not report["redis"]["reachable"]:
        raise typer.Exit(1)


def _print(report: dict[str, Any]) -> None:
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = 200  # piped output is for grep, not for a screen
    if report["redis"]["error"]:
        console.print(f"[red]{escape(report['redis']['error'])}[/]")
    console.print(_replicas(report))
    for name, instances in report["services"].items():
        here = ", ".join(f"{i['instance']} ({i['age_ms'] / 1000:.1f} s ago)" for i in instances)
        console.print(f"{name:>10}: {here or '[red]absent[/]'}")
    for envoy in report["envoys"]:
        console.print(f"     Envoy: {envoy['node']}: {_envoy(envoy)}")
    for cluster in report["clusters"]:
        for e in cluster["endpoints"]:
            if e["drained"]:
                console.print(f"   drained: {cluster['name']} {e['address']}: {escape(repr(e['drained'])[1:-1])}")
    for key, why in report["rejected"].items():
        console.print(f"[yellow]  rejected: {escape(key)}: {escape(why)}[/]")


def _envoy(envoy: dict[str, Any]) -> str:
    """Whether an Envoy has all it was sent."""
    waiting = envoy.get("oldest_unacked_ms")
    if refusing := envoy.get("refusing", sorted(envoy.get("nacked", {}))):
        refused = ", ".join(refusing)
        return f"[red]refused {refused}: {escape(envoy.get('last_error') or 'no reason given')}[/]"
    return "up to date" if waiting is None else f"[yellow]has not answered a push for {waiting / 1000:.1f} s[/]"


def _replicas(report: dict[str, Any]) -> Table:
    view = Table(box=box.SIMPLE_HEAD, padding=0)
    for column in ("cluster", "replica", "status", "run", "wait", "KV", "weight", "load", "age"):
        right = column in {"run", "wait", "KV", "weight", "load", "age"}
        view.add_column(column, justify="right" if right else "left", no_wrap=True)
    for cluster in report["clusters"]:
        label = cluster["name"] if cluster["lb"] else f"{cluster['name']} (not in the file)"
        for e in cluster["endpoints"] or [None]:
            view.add_row(label, *(_row(e) if e else ("[red]no replica[/]",)))
            label = ""
    return view


def _row(e: dict[str, Any]) -> tuple[str, ...]:
    good = e["status"] in {"ready", "idle"} and not e["drained"]
    weight = "-" if e["weight"] is None else f"{e['weight']}{' pin' if e['pinned'] else ''}"
    return (
        e["address"],
        f"[{'green' if good else 'red'}]{'drained' if e['drained'] else e['status']}[/]",
        _number(e["running"]),
        _number(e["waiting"]),
        "-" if e["kv_used_ratio"] is None else f"{e['kv_used_ratio']:.0%}",
        weight,
        "-" if e["load"]["total"] is None else f"{e['load']['total']:.2f}",
        "-" if e["age_ms"] is None else f"{e['age_ms'] / 1000:.1f} s",
    )


def _number(value: int | None) -> str:
    return "-" if value is None else str(value)
