"""`tidegate actions`: what alerts and annotations have set in motion, and how to end it."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import Annotated, Any

import typer
from rich.markup import escape

from tidegate.cli.acts import actions_values
from tidegate.cli.connection import Target, on_cluster
from tidegate.cli.look import new_console, new_table
from tidegate.cli.orders import DryRun, operator_name
from tidegate.domain.actions.act import Act
from tidegate.domain.actions.notice import MOST_WAITING
from tidegate.domain.errors import ConfigError
from tidegate.domain.lifetime import duration_text
from tidegate.store.ports import Store

Ident = Annotated[str, typer.Argument(metavar="ID", help="of `tidegate actions list`")]
Json = Annotated[bool, typer.Option("--json", help="print JSON instead of a table")]

app = typer.Typer(no_args_is_help=True, help="What alerts and annotations have set in motion, and how to end it.")


@app.command("list")
@on_cluster
def actions_list(target: Target, json_output: Json = False) -> None:
    """Show every act in force: what is done, to whom, by which rule, because of what, and until when."""

    async def look(store: Store) -> tuple[list[Act], int]:
        return await store.acts(), round(await store.time_ms())

    acts, now_ms = target.ask(look)
    if json_output:
        print(json.dumps(actions_values(acts), indent=1))
        return
    if not acts:
        print("no act is in force")
        return
    view = new_table("id", "act", "target", "value", "rule", "because", ">since", ">until")
    for act in sorted(acts, key=lambda one: (one.since_ms, one.id)):
        since, until = duration_text(now_ms - act.since_ms), "-"
        if act.until_ms is not None:
            until = duration_text(act.until_ms - now_ms)
        kind = f"{act.deed.kind}{' (dry run)' if act.dry_run else ''}"
        cells = (act.id, kind, act.deed.target, act.deed.value, act.rule, act.cause, since, until)
        view.add_row(*map(escape, cells))
    new_console().print(view)


@app.command("show")
@on_cluster
def actions_show(target: Target, ident: Ident) -> None:
    """Print all that is known of one act, as JSON."""

    async def look(store: Store) -> dict[str, Any]:
        act = next((one for one in await store.acts() if one.id == ident), None)
        if act is None:
            raise _no_such(ident)
        notice = next((one for one in (await store.notices()).values() if ident in one.ids()), None)
        return {"act": asdict(act), "notice": None if notice is None else asdict(notice)}

    print(json.dumps(target.ask(look), indent=1))


@app.command("cancel")
@on_cluster
def actions_cancel(target: Target, ident: Ident, dry_run: DryRun = False) -> None:
    """End an act. It stays away until its alert has been resolved and fires anew."""

    async def go(store: Store) -> str:
        act = next((one for one in await store.acts() if one.id == ident), None)
        if act is None:
            raise _no_such(ident)
        notice = next((one for one in (await store.notices()).values() if ident in one.ids()), None)
        if notice is None:
            raise ConfigError(
                [f"{ident} follows from no alert but from {act.cause}; what an operator types wins over it"]
            )
        named = f"{act.deed.kind} {act.deed.target} ({act.cause})"
        if dry_run:
            return f"would cancel {named}"
        cancelled = replace(notice, cancelled={**notice.cancelled, ident: operator_name()})
        if not await store.deliver([cancelled], most=MOST_WAITING):
            raise ConfigError(["too many notices wait for the controller that leads; does one run?"])
        return f"cancelled {named}; the controller that leads ends it"

    print(target.ask(go))


def _no_such(ident: str) -> ConfigError:
    return ConfigError([f"no act {ident} is in force; `tidegate actions list` names them"])
