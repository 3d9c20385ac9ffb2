"""Subcommands that write operators' keys. What they write, a bare `redis-cli HSET` writes as well."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Annotated, Any

import typer

from tidegate.cli.connection import Target, on_cluster
from tidegate.cli.look import bar, new_console, new_table
from tidegate.cli.orders import DryRun, Order, Scene, Yes, carry_out, known_cluster, known_replica, look
from tidegate.domain import weight_settings
from tidegate.domain.errors import ConfigError
from tidegate.domain.lifetime import duration_ms, read_timed, time_text, timed_text
from tidegate.domain.operators import FieldChange, parse_pin
from tidegate.domain.shares import Standing, shares
from tidegate.domain.tuning import in_force

Cluster = Annotated[str, typer.Argument(help="cluster name")]
Endpoint = Annotated[str, typer.Argument(help="host:port of the replica")]
Force = Annotated[bool, typer.Option("--force", help="write even when nobody knows that replica")]
For = Annotated[str | None, typer.Option("--for", metavar="TIME", help="for how long: 90s, 10m, 1h30m, 2d")]
Reason = Annotated[str, typer.Option(help="why, for those who look at it later")]

NO_REASON = "no reason given"

weight_app = typer.Typer(no_args_is_help=True, help="Pin weights of replicas, and let go of them.")


def register(app: typer.Typer) -> None:
    """Add `weight`, `drain` and `undrain`."""
    app.add_typer(weight_app, name="weight")
    app.command()(on_cluster(drain))
    app.command()(on_cluster(undrain))


def _pin(text: str) -> int:
    try:
        return parse_pin(text)
    except ValueError as exc:
        raise ConfigError([str(exc)]) from exc


def until_of(lifetime: str | None, now_ms: int) -> int | None:
    """The end of an order that begins now, on a whole second. Raises ConfigError."""
    if lifetime is None:
        return None
    try:
        return -(-(now_ms + duration_ms(lifetime)) // 1000) * 1000
    except ValueError as exc:
        raise ConfigError([f"--for: {exc}"]) from exc


@weight_app.command("set")
@on_cluster
def weight_set(
    target: Target,
    cluster: Cluster,
    endpoint: Endpoint,
    weight: Annotated[str, typer.Argument(metavar="0…1000", help="0 sends no new traffic; up to 1000")],
    lifetime: For = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    force: Force = False,
) -> None:
    """Pin a replica's weight until it is cleared, or for a while."""
    pin = _pin(weight)

    def draft(scene: Scene) -> Order:
        replica = known_replica(scene, cluster, endpoint, force=force)
        text = timed_text(str(pin), until_of(lifetime, scene.now_ms))
        return Order(
            [FieldChange(key=f"weight:{cluster}", field=endpoint, value=text)],
            why="pinned",
            done=f"{cluster} {endpoint}: weight pinned to {text}",
            cluster=cluster,
            standings={endpoint: replace(replica, pinned=pin)},
        )

    carry_out(target, draft, dry_run=dry_run, yes=yes)


@weight_app.command("clear")
@on_cluster
def weight_clear(
    target: Target,
    cluster: Cluster,
    endpoint: Annotated[str | None, typer.Argument(help="host:port; without it, every pin of the cluster")] = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    force: Force = False,
) -> None:
    """Return a replica, or all of a cluster, to automatic weights."""

    def draft(scene: Scene) -> Order:
        if endpoint is not None:
            known_replica(scene, cluster, endpoint, force=force)
        elif not force:
            known_cluster(scene, cluster)
        typed = scene.keys.weights.get(cluster, {})
        cleared = [address for address in ([endpoint] if endpoint else sorted(typed)) if address in typed]
        done = f"automatic again: {', '.join(cleared)}" if cleared else "nothing was pinned"
        freed = [r for r in scene.replicas.get(cluster, ()) if r.address in cleared]
        return Order(
            [FieldChange(key=f"weight:{cluster}", field=address, value=None) for address in cleared],
            why="cleared",
            done=f"{cluster}: {done}",
            cluster=cluster,
            standings={r.address: replace(r, pinned=None) for r in freed},
            effects=_ramp(scene, cluster) if any(r.pinned == 0 for r in freed) else (),
        )

    carry_out(target, draft, dry_run=dry_run, yes=yes)


@weight_app.command("show")
@on_cluster
def weight_show(
    target: Target,
    cluster: Annotated[str | None, typer.Argument(help="cluster name; without it, every cluster")] = None,
    json_output: Annotated[bool, typer.Option("--json", help="print JSON instead of a table")] = False,
) -> None:
    """Show each replica's weight, its share of the traffic, and who ordered it."""
    scene = target.ask(lambda store: look(store, target))
    shown = {cluster: known_cluster(scene, cluster)} if cluster else scene.replicas
    rows = [
        _weight_row(scene, name, r, shares(replicas)[r.address]) for name, replicas in shown.items() for r in replicas
    ]
    if json_output:
        print(json.dumps(rows, indent=1))
        return
    table = new_table("cluster ", "replica ", ">weight", ">share", "", "", ">automatic", " order")
    for row in rows:
        share = row["share"]
        table.add_row(
            f"{row['cluster']} ",
            row["address"],
            _shown(row["weight"]),
            "-" if share is None else f"{share:.1%}",
            " ",
            bar(share, 12),
            _shown(row["automatic"]),
            f" {row['order'] or ''}",
        )
    new_console().print(table)


def _weight_row(scene: Scene, cluster: str, replica: Standing, share: float | None) -> dict[str, Any]:
    typed = {kind: scene.typed(f"{kind}:{cluster}", replica.address) for kind in ("weight", "drain")}
    words = {"weight": "pinned", "drain": "drained:"}
    order = "; ".join(f"{words[kind]} {text}".strip() for kind, text in typed.items() if text is not None)
    return {
        "cluster": cluster,
        "address": replica.address,
        "weight": replica.weight,
        "share": share,
        "automatic": replica.automatic,
        "pinned": replica.pinned,
        "drained": replica.drained,
        "order": order or None,
    }


def drain(
    target: Target,
    cluster: Cluster,
    endpoint: Endpoint,
    reason: Reason = NO_REASON,
    lifetime: For = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    force: Force = False,
) -> None:
    """Send a replica no new traffic; what runs there ends in peace."""
    said = " ".join(reason.split()) or NO_REASON

    def draft(scene: Scene) -> Order:
        replica = known_replica(scene, cluster, endpoint, force=force)
        text = timed_text(said, until_of(lifetime, scene.now_ms))
        timed = read_timed(text, scene.now_ms)
        end = "" if timed.until_ms is None else f" until {time_text(timed.until_ms)}"
        return Order(
            [FieldChange(key=f"drain:{cluster}", field=endpoint, value=text)],
            why="drained",
            done=f"{cluster} {endpoint}: draining ({timed.rest}){end}",
            cluster=cluster,
            standings={endpoint: replace(replica, drained=timed.rest)},
        )

    carry_out(target, draft, dry_run=dry_run, yes=yes)


def undrain(
    target: Target,
    cluster: Cluster,
    endpoint: Endpoint,
    dry_run: DryRun = False,
    force: Force = False,
) -> None:
    """Let a drained replica take traffic again."""

    def draft(scene: Scene) -> Order:
        replica = known_replica(scene, cluster, endpoint, force=force)
        was = endpoint in scene.keys.drains.get(cluster, {})
        return Order(
            [FieldChange(key=f"drain:{cluster}", field=endpoint, value=None)] if was else [],
            why="undrained",
            done=f"{cluster} {endpoint}: {'takes traffic again' if was else 'was not draining'}",
            cluster=cluster,
            standings={endpoint: replace(replica, drained=None)},
            effects=_ramp(scene, cluster) if was else (),
        )

    carry_out(target, draft, dry_run=dry_run, yes=True)


def _ramp(scene: Scene, cluster: str) -> list[str]:
    """What is to be known of a replica that comes back from weight 0."""
    text, _ = in_force("weight.ramp_seconds", cluster, scene.keys.good_tunes())
    seconds = weight_settings.DEFAULT.ramp_seconds if text is None else float(text)
    return [f"  it takes its share over {seconds:g} s (weight.ramp_seconds)"] if seconds else []


def _shown(value: object) -> str:
    return "-" if value is None else str(value)
