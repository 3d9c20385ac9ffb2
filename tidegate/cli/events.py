"""`tidegate events`: the audit log, as lines."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from tidegate.cli.connection import Target, on_cluster
from tidegate.cli.look import new_console
from tidegate.domain.lifetime import time_text
from tidegate.store.ports import Event, Store

FOLLOW_SECONDS = 0.25


@on_cluster
def events(
    target: Target,
    about: Annotated[str | None, typer.Argument(help="only what names this: a cluster, a host:port, a tunable")] = None,
    count: Annotated[int, typer.Option("-n", "--count", min=0, help="how many of the newest")] = 20,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="go on with what comes, until Ctrl-C")] = False,
    json_output: Annotated[bool, typer.Option("--json", help="print one JSON object a line")] = False,
) -> None:
    """Show who changed what, when, from what to what, and why: operators, the command line and the controller."""

    async def go(store: Store) -> None:
        _, mark = await store.events_after("")
        await_more = count if about is None else 10_000
        found = [event for event in await store.events(await_more) if _is_about(event, about)]
        _print(found[-count:] if count else [], json_output=json_output)
        while follow:
            await asyncio.sleep(FOLLOW_SECONDS)
            fresh, mark = await store.events_after(mark)
            _print([event for event in fresh if _is_about(event, about)], json_output=json_output)

    with contextlib.suppress(KeyboardInterrupt):
        target.ask(go)


def _is_about(event: Event, about: str | None) -> bool:
    return about is None or about in event.what


def _print(found: Sequence[Event], *, json_output: bool) -> None:
    console = new_console()
    for event in found:
        if json_output:
            print(json.dumps(asdict(event)), flush=True)
        else:
            console.print(line(event), soft_wrap=True)
            _flush(console)


def line(event: Event) -> Text:
    """One event: time, who, what, from what to what, and why. What others wrote is shown without its control codes."""
    text = Text()
    text.append(f"{time_text(event.at_ms)}  ", style="dim")
    text.append(f"{_clean(event.who):<16}  ", style="cyan" if event.who.startswith("cli:") else "")
    text.append(_clean(event.what), style="yellow" if event.what.startswith("rejected ") else "bold")
    if event.before or event.after:
        text.append(f"  {_clean(event.before) or '-'} → {_clean(event.after) or '-'}")
    if event.why:
        text.append(f"  ({_clean(event.why)})", style="dim")
    return text


def _clean(said: str) -> str:
    return "".join(ch if ch.isprintable() else "�" for ch in said)


def _flush(console: Console) -> None:
    console.file.flush()
