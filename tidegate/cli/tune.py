"""`tidegate tune`: every tunable of the product, what is in force, and how it is changed while everything runs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated, Any

import typer
from rich.markup import escape

from controller.decide import rules_of
from tidegate.cli.connection import Target, on_cluster
from tidegate.cli.look import new_console, new_table
from tidegate.cli.orders import DryRun, Order, Scene, carry_out, known_cluster, look
from tidegate.domain.errors import ConfigError
from tidegate.domain.operators import FieldChange
from tidegate.domain.shares import Standing, settled
from tidegate.domain.tunable import Tunable, plain
from tidegate.domain.tuning import EVERYWHERE, GROUPS, check, check_tunes, find, in_force
from tidegate.domain.upstream import TUNE_PREFIX
from tidegate.domain.weights import DEFAULT as RULES

Name = Annotated[str, typer.Argument(help="name of the tunable, as `tune list` prints it")]
Scope = Annotated[str | None, typer.Option("--cluster", help="for that cluster alone; without it, for all of them")]
Json = Annotated[bool, typer.Option("--json", help="print JSON instead of a table")]

app = typer.Typer(no_args_is_help=True, help="Show and change tunables while everything runs.")


@app.command("list")
@on_cluster
def tune_list(
    target: Target,
    prefix: Annotated[str, typer.Argument(help="only names that begin so, such as `envoy.`")] = "",
    cluster: Annotated[str | None, typer.Option("--cluster", help="what is in force there")] = None,
    changed: Annotated[bool, typer.Option("--changed", help="only what somebody tuned")] = False,
    json_output: Json = False,
) -> None:
    """Show every tunable: what is in force, where that comes from, its default, its range and what it does."""
    scene = target.ask(lambda store: look(store, target))
    if cluster is not None:
        known_cluster(scene, cluster)
    rows = [
        row
        for group in GROUPS
        for tunable in group.tunables
        if tunable.name.startswith(prefix)
        for row in _rows(target, scene, tunable, cluster)
        if not changed or row["from"].startswith("tune")
    ]
    _print(rows, json_output=json_output)


@app.command("get")
@on_cluster
def tune_get(target: Target, name: Name, cluster: Scope = None, json_output: Json = False) -> None:
    """Show one tunable, everywhere that it is in force."""
    tunable = _find(name)
    scene = target.ask(lambda store: look(store, target))
    if cluster is not None:
        known_cluster(scene, cluster)
    rows = list(_rows(target, scene, tunable, cluster))
    _print(rows, json_output=json_output)
    if not json_output:
        new_console().print(f"{name}: {tunable.doc}", markup=False)
        for key, why in check_tunes(scene.keys.tunes, scene.keys.tuned).items():
            if key.endswith(f" {name}"):
                new_console().print(f"[yellow]rejected: {escape(key)}: {escape(why)}[/]")


@app.command("set")
@on_cluster
def tune_set(
    target: Target,
    name: Name,
    value: Annotated[str, typer.Argument(help="a value in the tunable's range")],
    cluster: Scope = None,
    dry_run: DryRun = False,
) -> None:
    """Change a tunable, for every cluster or for one."""
    scope = cluster or EVERYWHERE
    if why := check(scope, name, value):
        raise ConfigError([why if name in why else f"{name}: {why}"])

    def draft(scene: Scene) -> Order:
        if cluster is not None:
            known_cluster(scene, cluster)
        where = f"in {cluster}" if cluster else "everywhere"
        return Order(
            [FieldChange(key=_key(scope), field=name, value=value)],
            why="tuned",
            done=f"{name} is {value} {where}",
            effects=_effects(target, scene, _find(name), scope, value),
            settled=_settled(scene, name, scope, value),
        )

    carry_out(target, draft, dry_run=dry_run, yes=True)


@app.command("unset")
@on_cluster
def tune_unset(target: Target, name: Name, cluster: Scope = None, dry_run: DryRun = False) -> None:
    """Return a tunable to what holds without it: the value for all clusters, the file's, or the default."""
    scope = cluster or EVERYWHERE

    def draft(scene: Scene) -> Order:
        was = name in scene.keys.tunes.get(scope, {})
        if not was:
            _find(name)  # a name that nobody knows may be removed, but not be nowhere
        changes = [FieldChange(key=_key(scope), field=name, value=None)] if was else []
        done = f"{name} is no longer tuned" if was else f"{name} was not tuned"
        try:
            effects = _effects(target, scene, find(name), scope, None)
        except ValueError:
            effects = []
        done += f" in {cluster}" if cluster else ""
        return Order(changes, why="untuned", done=done, effects=effects, settled=_settled(scene, name, scope, None))

    carry_out(target, draft, dry_run=dry_run, yes=True)


def _find(name: str) -> Tunable:
    try:
        return find(name)
    except ValueError as exc:
        raise ConfigError([str(exc)]) from exc


def _key(scope: str) -> str:
    return f"tune:{scope}" if scope else "tune"


def _default(target: Target, tunable: Tunable, cluster: str | None) -> tuple[str, str]:
    """What holds where nobody tuned, and whether the file or the product says so."""
    found = target.topology.cluster(cluster) if target.topology and cluster else None
    if found is not None and tunable.name.startswith(TUNE_PREFIX):
        value = plain(getattr(found.envoy, tunable.name.removeprefix(TUNE_PREFIX)))
        return value, "file" if value != plain(tunable.default) else "default"
    return plain(tunable.default), "default"


def _value(target: Target, scene: Scene, tunable: Tunable, cluster: str) -> tuple[str, str]:
    """The value in force in a cluster (or, for EVERYWHERE, where no cluster has its own), and where it comes from."""
    text, origin = in_force(tunable.name, cluster, scene.keys.good_tunes())
    return (text, origin) if text is not None else _default(target, tunable, cluster)


def _rows(target: Target, scene: Scene, tunable: Tunable, cluster: str | None) -> Iterator[dict[str, Any]]:
    """What is in force in one cluster; without one, everywhere, and in each cluster where it differs."""
    common = _value(target, scene, tunable, cluster or EVERYWHERE)
    yield _row(tunable, cluster, *common)
    for name in scene.replicas if cluster is None else ():
        own = _value(target, scene, tunable, name)
        if own[0] != common[0]:
            yield _row(tunable, name, *own)


def _row(tunable: Tunable, cluster: str | None, value: str, origin: str) -> dict[str, Any]:
    return {
        "name": tunable.name,
        "cluster": cluster,
        "value": value,
        "from": origin.partition(":")[0] if origin.startswith("tune") and cluster is None else origin,
        "default": plain(tunable.default),
        "unit": tunable.unit,
        "range": tunable.range,
        "doc": tunable.doc,
    }


def _effects(target: Target, scene: Scene, tunable: Tunable, scope: str, value: str | None) -> list[str]:
    """One line a cluster: the value in force before and after."""
    then = _tuned(scene, tunable.name, scope, value)
    unit = f" {tunable.unit}" if tunable.unit else ""
    lines = []
    for cluster in [scope] if scope else scene.replicas:
        was = _value(target, scene, tunable, cluster)[0]
        text, _ = in_force(tunable.name, cluster, then)
        becomes = text if text is not None else _default(target, tunable, cluster)[0]
        lines.append(f"  {cluster}: {was} → {becomes}{unit}" + ("" if was != becomes else " (as before)"))
    return lines


def _tuned(scene: Scene, name: str, scope: str, value: str | None) -> dict[str, dict[str, str]]:
    """The tunes once `name` is `value` in that scope, or is gone from it."""
    then = {s: dict(fields) for s, fields in scene.keys.good_tunes().items()}
    then.setdefault(scope, {}).pop(name, None)
    if value is not None:
        then[scope][name] = value
    return then


def _settled(scene: Scene, name: str, scope: str, value: str | None) -> dict[str, dict[str, Standing]]:
    """By cluster, the replicas whose weight would come to differ by what was tuned."""
    then, moved = _tuned(scene, name, scope, value), {}
    for cluster in [scope] if scope in scene.replicas else scene.replicas:
        explained = scene.explained.get(cluster, {})
        was, becomes = (
            settled(explained, rules_of(cluster, tunes, RULES)) for tunes in (scene.keys.good_tunes(), then)
        )
        if was != becomes:
            moved[cluster] = {
                r.address: replace(r, automatic=becomes[r.address])
                for r in scene.replicas[cluster]
                if r.address in becomes
            }
    return moved


def _print(rows: list[dict[str, Any]], *, json_output: bool) -> None:
    if json_output:
        print(json.dumps(rows, indent=1))
        return
    table = new_table("name ", "cluster ", "value ", "default ", "from ", "what it does")
    table.columns[-1].no_wrap = False
    for row in rows:
        unit = f" {row['unit']}" if row["unit"] else ""
        cells = (row["name"], row["cluster"] or "", row["value"] + unit, row["default"], row["from"])
        style = "bold" if row["from"].startswith("tune") else ""
        table.add_row(*(f"{escape(cell)} " for cell in cells), escape(f"{row['doc']} ({row['range']})"), style=style)
    new_console().print(table)
