"""`tidegate status`: the state of the cluster as a table, or as JSON for machines."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer
from rich.console import Console
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
    if not report["redis"]["reachable"]:
        console.print(f"[red]Redis: {report['redis']['error']}[/]")
    console.print(_replicas(report))
    for name, instances in report["services"].items():
        here = ", ".join(f"{i['instance']} ({i['age_ms'] / 1000:.1f} s ago)" for i in instances)
        console.print(f"{name:>10}: {here or '[red]absent[/]'}")
    for envoy in report["envoys"]:
        error = f" [red]{envoy['last_error']}[/]" if envoy.get("last_error") else ""
        waiting = envoy.get("oldest_unacked_ms")
        age = f", oldest unacknowledged push {waiting} ms" if waiting is not None else ""
        console.print(f"     Envoy: {envoy['node']}: acked {envoy['acked']}, nacked {envoy['nacked']}{age}{error}")
    for key, why in report["rejected"].items():
        console.print(f"[yellow]  rejected: {key}: {why}[/]")


def _replicas(report: dict[str, Any]) -> Table:
    view = Table()
    for column in ("cluster", "replica", "status", "run", "wait", "KV", "weight", "load", "age"):
        right = column in {"run", "wait", "KV", "weight", "load", "age"}
        view.add_column(column, justify="right" if right else "left", overflow="fold")
    for cluster in report["clusters"]:
        label = f"{cluster['name']} ({cluster['lb'] or 'not in the file'})"
        for e in cluster["endpoints"] or [None]:
            view.add_row(label, *(_row(e) if e else ("[red]no replica[/]",)))
            label = ""
    return view


def _row(e: dict[str, Any]) -> tuple[str, ...]:
    good = e["status"] in {"ready", "idle"}
    weight = "-" if e["weight"] is None else f"{e['weight']}{' pinned' if e['pinned'] else ''}"
    return (
        e["address"],
        f"[{'green' if good else 'red'}]{e['status']}[/]{' (drained)' if e['drained'] else ''}",
        _number(e["running"]),
        _number(e["waiting"]),
        "-" if e["kv_used_ratio"] is None else f"{e['kv_used_ratio']:.0%}",
        weight,
        "-" if e["load"]["total"] is None else f"{e['load']['total']:.2f}",
        "-" if e["age_ms"] is None else f"{e['age_ms'] / 1000:.1f} s",
    )


def _number(value: int | None) -> str:
    return "-" if value is None else str(value)
