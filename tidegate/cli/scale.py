"""`tidegate scale`: how many replicas each cluster should have, why, and what an operator wants instead."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from tidegate.cli.connection import Target, on_cluster
from tidegate.cli.look import age, new_console, new_table
from tidegate.cli.operate import For, until_of
from tidegate.cli.orders import DryRun, Order, Scene, carry_out, known_cluster, look
from tidegate.domain.errors import ConfigError
from tidegate.domain.lifetime import timed_text
from tidegate.domain.operators import FieldChange
from tidegate.domain.scaling import settings as scaling
from tidegate.domain.scaling.crew import crew_of
from tidegate.domain.scaling.order import AUTO, ORDER
from tidegate.domain.scaling.rule import Course
from tidegate.domain.tuning import in_force, typed_for
from tidegate.store.ports import Store
from tidegate.store.schema import tune_key

Cluster = Annotated[str, typer.Argument(help="cluster name")]

app = typer.Typer(no_args_is_help=True, help="Show how many replicas clusters should have, and order a number.")


@app.command("set")
@on_cluster
def scale_set(
    target: Target,
    cluster: Cluster,
    replicas: Annotated[str, typer.Argument(metavar="N", help="how many, whatever the load and the bounds")],
    lifetime: For = None,
    dry_run: DryRun = False,
) -> None:
    """Order a number of replicas until it is cleared, or for a while."""
    if not (replicas.isascii() and replicas.isdigit()):
        raise ConfigError([f"{replicas!r} is not a whole number of replicas"])
    try:
        ORDER.read(replicas)
    except ValueError as exc:
        raise ConfigError([str(exc)]) from exc

    def draft(scene: Scene) -> Order:
        known_cluster(scene, cluster)
        text = timed_text(replicas, until_of(lifetime, scene.now_ms))
        return Order([_change(cluster, text)], why="scaled", done=f"{cluster}: {text} replicas are wanted")

    carry_out(target, draft, dry_run=dry_run, yes=True)


@app.command("clear")
@on_cluster
def scale_clear(target: Target, cluster: Cluster, dry_run: DryRun = False) -> None:
    """Leave the number of replicas to the load again."""

    def draft(scene: Scene) -> Order:
        known_cluster(scene, cluster)
        was = ORDER.name in scene.keys.tunes.get(cluster, {})
        done = "its load decides again" if was else "no number was ordered"
        return Order([_change(cluster, None)] if was else [], why="cleared", done=f"{cluster}: {done}")

    carry_out(target, draft, dry_run=dry_run, yes=True)


@app.command("show")
@on_cluster
def scale_show(
    target: Target,
    cluster: Annotated[str | None, typer.Argument(help="cluster name; without it, every cluster")] = None,
    json_output: Annotated[bool, typer.Option("--json", help="print JSON instead of a table")] = False,
) -> None:
    """Show each cluster's target, why and since when, the replicas that it has, and the bounds in force."""

    async def ask(store: Store) -> tuple[Scene, dict[str, Course]]:
        scene = await look(store, target)
        return scene, await store.targets(list(scene.replicas))

    scene, courses = target.ask(ask)
    if cluster is not None:
        known_cluster(scene, cluster)
    rows = [_row(scene, name, courses.get(name)) for name in ([cluster] if cluster else scene.replicas)]
    if json_output:
        print(json.dumps(rows, indent=1))
    else:
        _print(rows, scene.now_ms)


def _change(cluster: str, value: str | None) -> FieldChange:
    return FieldChange(key=tune_key(cluster), field=ORDER.name, value=value)


def _row(scene: Scene, cluster: str, course: Course | None) -> dict[str, Any]:
    """One cluster, as `--json` prints it; None where no controller has decided yet."""
    crew = crew_of(scene.explained.get(cluster, {}))
    rules, _ = scaling.tuned(scaling.DEFAULT, typed_for(cluster, scene.keys.good_tunes()), scaling.DEFAULT)
    order, _ = in_force(ORDER.name, cluster, scene.keys.good_tunes())
    target, automatic = (course.target, course.automatic) if course is not None else (None, None)
    return {
        "cluster": cluster,
        "desired": target.desired if target else None,
        "reason": target.reason.value if target else None,
        "why": target.why if target else None,
        "since_ms": target.since_ms if target else None,
        "automatic": automatic.desired if automatic else None,
        "ready": crew.ready,
        "coming": crew.coming,
        "leaving": crew.leaving,
        "unknown": crew.unknown,
        "load": crew.load,
        "min": rules.least,
        "max": rules.most,
        "order": None if order in {None, AUTO} else order,
    }


def _print(rows: list[dict[str, Any]], now_ms: int) -> None:
    console = new_console()
    table = new_table("cluster ", ">wanted ", ">ready ", ">coming ", ">leaving ", ">unknown ", ">load ", "bounds ", "")
    for row in rows:
        counts = (f"{row[name]} " for name in ("ready", "coming", "leaving", "unknown"))
        load = "-" if row["load"] is None else f"{row['load']:.2f}"
        wanted = "-" if row["desired"] is None else str(row["desired"])
        bounds = f"{row['min']}…{row['max']} "
        table.add_row(f"{row['cluster']} ", f"{wanted} ", *counts, f"{load} ", bounds, row["reason"] or "")
    console.print(table)
    for row in rows:
        for line in words(row, now_ms):
            console.print(line, markup=False, soft_wrap=True)


def words(row: Mapping[str, Any], now_ms: int) -> list[str]:
    """Why the target is what it is, and what an operator ordered."""
    if row["desired"] is None:
        return [f"{row['cluster']}: no controller has decided yet"]
    since = age(max(0, now_ms - row["since_ms"]))
    lines = [f"{row['cluster']}: {row['desired']} for {since}: {row['reason']}: {row['why']}"]
    if row["order"] is not None:
        lines.append(f"{row['cluster']}: ordered {row['order']}; without that {row['automatic']}")
    return lines
