"""An operator's order on its way to Redis: what it would do, a question where it is grave, and its audit line."""

from __future__ import annotations

import getpass
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from tidegate.cli.connection import Target
from tidegate.cli.look import bar, new_console, new_table
from tidegate.cli.report import gather
from tidegate.domain.errors import ConfigError
from tidegate.domain.operators import FieldChange
from tidegate.domain.shares import Standing, after, serves_nobody, shares, standing
from tidegate.runtime import now_ms
from tidegate.store.ports import Event, RawOperatorKeys, Store
from tidegate.store.schema import operator_hashes

DryRun = Annotated[bool, typer.Option("--dry-run", help="say what would change, and change nothing")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="do not ask, also where a cluster would serve nobody")]


@dataclass(frozen=True, slots=True)
class Scene:
    """What a command sees before it acts: replicas by cluster, and what operators typed. `now_ms` is the store's.

    `explained` is what the controller says of each replica, by cluster and address.
    """

    replicas: Mapping[str, Sequence[Standing]]
    keys: RawOperatorKeys
    now_ms: int
    explained: Mapping[str, Mapping[str, Mapping[str, Any]]] = field(default_factory=dict)

    def typed(self, key: str, name: str) -> str | None:
        """The text of a field, None where there is none."""
        return operator_hashes(self.keys).get(key, {}).get(name)


@dataclass(frozen=True, slots=True)
class Order:
    """What a command is about to write, why, and the replicas of `cluster` that it orders otherwise, by address.

    `settled` are those of any cluster, by name and address, that come to another weight as time goes by.
    """

    changes: Sequence[FieldChange]
    why: str
    done: str
    cluster: str | None = None
    standings: Mapping[str, Standing] = field(default_factory=dict)
    effects: Sequence[str] = ()
    settled: Mapping[str, Mapping[str, Standing]] = field(default_factory=dict)


async def look(store: Store, target: Target) -> Scene:
    """The scene of every cluster that the file, xds or an agent knows."""
    report = await gather(store, target.topology, now_ms())
    if not report["redis"]["reachable"]:
        await store.ping()  # raises the sentence
    names = [cluster["name"] for cluster in report["clusters"]]
    explain, keys = await store.explain(names), await store.operator_keys(names, [])
    replicas = {
        cluster["name"]: [
            standing(e["address"], e["weight"], explain[cluster["name"]].get(e["address"], {}))
            for e in cluster["endpoints"]
        ]
        for cluster in report["clusters"]
    }
    return Scene(replicas, keys, round(await store.time_ms()), explain)


def carry_out(target: Target, draft: Callable[[Scene], Order], *, dry_run: bool, yes: bool) -> None:
    """Draft an order on what is seen, ask where it leaves a cluster without capacity, and write it with its events.

    Raises ConfigError (the draft is refused, or nobody is there to ask) and StoreError.
    """

    async def go(store: Store) -> None:
        scene = await look(store, target)
        order = draft(scene)
        if dry_run:
            _show(order, scene)
            return
        _confirm(order, scene, yes=yes)
        if order.changes:
            await store.change_fields(order.changes, _events(order, scene))
        print(order.done)

    target.ask(go)


def known_cluster(scene: Scene, cluster: str) -> Sequence[Standing]:
    """The replicas of a cluster. Raises ConfigError when nobody knows it."""
    if cluster not in scene.replicas:
        there = ", ".join(sorted(scene.replicas)) or "none"
        raise ConfigError([f"there is no cluster {cluster} (there are: {there})"])
    return scene.replicas[cluster]


def known_replica(scene: Scene, cluster: str, address: str, *, force: bool) -> Standing:
    """The replica of that address; with `force` one that nobody knows. Raises ConfigError, most likely for a slip."""
    if force and cluster not in scene.replicas:
        return Standing(address=address)
    replicas = known_cluster(scene, cluster)
    found = next((r for r in replicas if r.address == address), None)
    if found is None and not force:
        have = ", ".join(sorted(r.address for r in replicas)) or "none"
        raise ConfigError([f"{cluster} has no replica {address} (it has: {have}); --force goes on all the same"])
    return found or Standing(address=address)


def operator_name() -> str:
    """Who the audit log names: `cli:USER@HOST`."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a user id without a name, as in some containers
        user = "unknown"
    return f"cli:{user}@{socket.gethostname()}"


def _events(order: Order, scene: Scene) -> list[Event]:
    who = operator_name()
    return [
        Event(
            at_ms=scene.now_ms,
            who=who,
            what=f"{change.key} {change.field}",
            before=scene.typed(change.key, change.field) or "",
            after=change.value or "",
            why=order.why,
        )
        for change in order.changes
    ]


def _confirm(order: Order, scene: Scene, *, yes: bool) -> None:
    """Ask before a cluster that serves comes to serve nobody. Raises ConfigError where nobody can be asked."""
    before = scene.replicas.get(order.cluster or "", ())
    if yes or serves_nobody(before) or not serves_nobody(after(before, order.standings)):
        return
    grave = f"{order.cluster} would have no replica that takes traffic: its requests get 503"
    if not sys.stdin.isatty():
        raise ConfigError([f"{grave}; --yes goes on all the same"])
    if not typer.confirm(f"{grave}. Go on?"):
        raise ConfigError(["nothing was changed"])


def _show(order: Order, scene: Scene) -> None:
    console = new_console()
    for change in order.changes:
        was, becomes = scene.typed(change.key, change.field), change.value
        console.print(f"{change.key} {change.field}: {_text(was)} → {_text(becomes)}", markup=False)
    for effect in order.effects:
        console.print(effect, markup=False)
    if order.cluster is not None and order.cluster in scene.replicas and order.standings:
        _show_shares(console, scene.replicas[order.cluster], order)
    for cluster, standings in order.settled.items():
        console.print(f"{cluster}, once its weights have settled:", markup=False)
        replicas = scene.replicas[cluster]
        console.print(_share_table(replicas, after(replicas, standings)))
    console.print("nothing was changed (--dry-run)")


def _show_shares(console: Console, before: Sequence[Standing], order: Order) -> None:
    then = after(before, order.standings)
    console.print(_share_table(before, then))
    if serves_nobody(then):
        console.print(f"[red]{order.cluster} would have no replica that takes traffic: its requests get 503[/]")


def _share_table(before: Sequence[Standing], then: Sequence[Standing]) -> Table:
    table = new_table("replica", ">weight", "", ">", ">share", "", ">", "")
    was, becomes = shares(before), shares(then)
    for old, new in zip(before, then, strict=True):
        moved = old.weight != new.weight
        style = "bold" if moved else ""
        row: list[Any] = [old.address, _text(old.weight), "→", _text(new.weight)]
        row += [_percent(was[old.address]), "→", _percent(becomes[new.address]), bar(becomes[new.address], 12)]
        table.add_row(*row, style=style)
    return table


def _text(value: object) -> str:
    return "-" if value is None else str(value)


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.1%}"
