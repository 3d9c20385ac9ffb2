"""`tidegate split`: shares of a model's versions, while everything runs, and what became of their requests."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer
from rich.markup import escape

from tidegate.cli.connection import Target, on_cluster
from tidegate.cli.look import bar, new_console, new_table
from tidegate.cli.orders import DryRun, operator_name
from tidegate.domain.actions.layers import with_splits
from tidegate.domain.errors import ConfigError
from tidegate.domain.lifetime import time_text
from tidegate.domain.operators import FieldChange
from tidegate.domain.outcomes.report import Report
from tidegate.domain.outcomes.version import last_minute
from tidegate.domain.rollout.course import GOING
from tidegate.domain.rollout.snapshot import SHOWN, versions_seen
from tidegate.domain.routing import PERMILLE
from tidegate.domain.split import Parts, fields_of, in_force, read_parts, split_key, text_of
from tidegate.domain.topology import Topology
from tidegate.store.ports import Event, Store
from tidegate.store.rollouts import STATE, SplitLine, decode_state

Model = Annotated[str, typer.Argument(help="the model, as clients name it")]
Json = Annotated[bool, typer.Option("--json", help="print JSON instead of a table")]

app = typer.Typer(no_args_is_help=True, help="Share a model's requests among its versions, in parts per thousand.")


@app.command("set")
@on_cluster
def split_set(
    target: Target,
    model: Model,
    shares: Annotated[list[str], typer.Argument(metavar="CLUSTER=SHARE…", help="0…1000 each, 1000 in all")],
    dry_run: DryRun = False,
) -> None:
    """Put a split in force. Users keep their version, but for those of the slice that moves."""
    parts = _parts(target.topology, model, shares)

    async def go(store: Store) -> None:
        typed = (await store.operator_keys((), [model])).splits.get(model, {})
        changes = [_change(model, name, str(share)) for name, share in parts]
        changes += [_change(model, name, None) for name in typed.keys() - dict(parts).keys()]
        await _carry_out(store, model, typed, changes, after=text_of(parts), why="split", dry_run=dry_run)

    target.ask(go)


@app.command("clear")
@on_cluster
def split_clear(target: Target, model: Model, dry_run: DryRun = False) -> None:
    """Return to the file's split, or to none."""

    async def go(store: Store) -> None:
        typed = (await store.operator_keys((), [model])).splits.get(model, {})
        changes = [_change(model, name, None) for name in typed]
        await _carry_out(store, model, typed, changes, after="", why="cleared", dry_run=dry_run)

    target.ask(go)


@app.command("show")
@on_cluster
def split_show(
    target: Target,
    model: Annotated[str | None, typer.Argument(help="the model; without it, every model that has a split")] = None,
    json_output: Json = False,
) -> None:
    """Show each version: the share that is set and the share seen, requests of the last minute, error rate and p95."""
    found, rejected = target.ask(lambda store: _look(store, target.topology, model))
    if model is not None and not found:
        raise ConfigError([f"{model} has no split; `tidegate split set {model} CLUSTER=SHARE…` gives it one"])
    if json_output:
        print(json.dumps(found[0] if model is not None else found, indent=1))
        return
    _print(found, rejected)


@app.command("history")
@on_cluster
def split_history(
    target: Target,
    model: Model,
    count: Annotated[int, typer.Option("-n", "--count", min=1, max=2000, help="how many of the newest lines")] = 20,
    json_output: Annotated[bool, typer.Option("--json", help="print one JSON object a line")] = False,
) -> None:
    """Show what the split was and what became of it: a line at each change, and one every ten seconds."""
    lines = target.ask(lambda store: store.split_history(model, count))
    if not lines:
        raise ConfigError([f"{model} has no history: it has no split, or no controller has led since it has one"])
    if json_output:
        for line in lines:
            versions = [{"cluster": name, **row} for name, row in line.versions.items()]
            print(json.dumps({"at_ms": line.at_ms, "why": line.why, "model": model, "versions": versions}))
        return
    _print_history(lines)


def _parts(topology: Topology | None, model: str, shares: Sequence[str]) -> Parts:
    """What was typed, checked as the controller will. Without a file, the clusters are those that were typed."""
    fields = {name: share for name, _, share in (word.partition("=") for word in shares)}
    if len(fields) < len(shares):
        raise ConfigError(["a cluster is named twice"])
    if topology is not None and model not in topology.split_models:
        known = ", ".join(topology.split_models) or "none"
        raise ConfigError([f"no model of the file is called {model} (there are: {known})"])
    try:
        return read_parts(fields, topology.versions(model) if topology is not None else tuple(fields))
    except ValueError as exc:
        raise ConfigError([f"{model}: {exc}"]) from exc


def _change(model: str, cluster: str, share: str | None) -> FieldChange:
    return FieldChange(key=split_key(model), field=cluster, value=share)


async def _carry_out(
    store: Store,
    model: str,
    typed: Mapping[str, str],
    changes: Sequence[FieldChange],
    *,
    after: str,
    why: str,
    dry_run: bool,
) -> None:
    """Write the split as a whole, so that no reader meets a part of it, and its line in the audit log."""
    before = text_of(tuple((name, int(share)) for name, share in typed.items() if share.isdecimal()))
    print(f"{split_key(model)}: {before or 'as in the file'} → {after or 'as in the file'}")
    if dry_run:
        print("nothing was changed (--dry-run)")
        return
    if await _goes(store, model):
        print(f"a rollout of {model} goes on; it pauses now (`tidegate rollout show {model}`)")
    if changes:
        at_ms = round(await store.time_ms())
        said = Event(at_ms=at_ms, who=operator_name(), what=split_key(model), before=before, after=after, why=why)
        await store.change_fields(changes, [said])


async def _look(
    store: Store, topology: Topology | None, model: str | None
) -> tuple[list[dict[str, Any]], dict[str, str]]:
    keys, effects = await store.operator_keys((), ()), await store.effects()
    if topology is not None:
        tuned = with_splits(keys.tuned, effects, topology.split_models)
        splits = {name: split.parts for name, split in in_force(topology, tuned).items()}
    else:
        splits = {
            key.removeprefix(split_key("")): read_parts(fields_of(text), tuple(fields_of(text)))
            for key, text in with_splits(keys.tuned, effects, list(effects.splits)).items()
            if key.startswith(split_key(""))
        }
    wanted = {name: parts for name, parts in splits.items() if model in (None, name)}
    reports = [one for one in await store.outcomes((), (), list(wanted)) if one.run]
    found = [{"model": name, "versions": _shown(name, parts, reports)} for name, parts in wanted.items()]
    rejected = {key: why for key, why in (await store.rejected()).items() if key.startswith(split_key(model or ""))}
    return found, rejected


def _shown(model: str, parts: Parts, reports: Sequence[Report]) -> list[dict[str, Any]]:
    """`[{"cluster", "share_permille", "seen_permille", "requests", "error_rate", "p95_ms"}]` of the last minute."""
    seen = last_minute(one.versions.get(model, {}) for one in reports) if reports else None
    return [{name: row[name] for name in SHOWN} for row in versions_seen(parts, seen)]


async def _goes(store: Store, model: str) -> bool:
    state = decode_state((await store.rollouts([model]))[0].get(model, {}).get(STATE))
    return state is not None and state.phase in GOING


def _print(found: Sequence[Mapping[str, Any]], rejected: Mapping[str, str]) -> None:
    console = new_console()
    table = new_table("model ", "version ", ">share ", "", ">seen ", ">requests ", ">errors ", ">p95")
    for one in found:
        for version in one["versions"]:
            table.add_row(
                f"{escape(one['model'])} ",
                f"{escape(version['cluster'])} ",
                f"{version['share_permille']} ‰ ",
                bar(version["share_permille"] / PERMILLE, 12) + " ",
                _cell(version["seen_permille"], "{:.0f} ‰ "),
                _cell(version["requests"], "{} "),
                _cell(version["error_rate"], "{:.1%} "),
                _cell(version["p95_ms"], "{:.0f} ms"),
            )
    console.print(table)
    for key, why in rejected.items():
        console.print(f"[yellow]rejected: {escape(key)}: {escape(why)}[/]")


def _print_history(lines: Sequence[SplitLine]) -> None:
    table = new_table("time ", "version ", ">share ", ">seen ", ">requests ", ">errors ", ">p95", " why")
    for line in lines:
        for number, (version, row) in enumerate(line.versions.items()):
            table.add_row(
                time_text(line.at_ms) + " " if number == 0 else "",
                f"{escape(version)} ",
                _cell(row.get("share_permille"), "{} ‰ "),
                _cell(row.get("seen_permille"), "{:.0f} ‰ "),
                _cell(row.get("requests"), "{} "),
                _cell(row.get("error_rate"), "{:.1%} "),
                _cell(row.get("p95_ms"), "{:.0f} ms"),
                f" {escape(line.why)}" if number == 0 else "",
            )
    new_console().print(table)


def _cell(value: Any, form: str) -> str:
    return "- " if value is None else form.format(value)
