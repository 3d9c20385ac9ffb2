"""`tidegate top`: the fleet as it moves, on one screen."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
import termios
import tty
from collections.abc import Callable, Iterator
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.live import Live

from tidegate.cli.connection import Target, on_cluster
from tidegate.cli.report import gather
from tidegate.cli.top_view import History, screen
from tidegate.domain.errors import ConfigError
from tidegate.runtime import now_ms
from tidegate.store.ports import Store

NARROW = 80


@on_cluster
def top(
    target: Target,
    cluster: Annotated[str | None, typer.Argument(help="only this cluster")] = None,
    interval: Annotated[float, typer.Option(min=0.1, max=60.0, help="seconds between two looks")] = 1.0,
    once: Annotated[bool, typer.Option("--once", help="print one look (rates take one interval) and end")] = False,
    json_output: Annotated[bool, typer.Option("--json", help="with --once: print JSON instead")] = False,
) -> None:
    """Watch weights, queues, KV use, load, requests and ages move. q or Ctrl-C ends it."""
    history = History()

    async def report(store: Store) -> dict[str, Any]:
        told = await gather(store, target.topology, now_ms())
        if cluster is not None:
            told["clusters"] = [one for one in told["clusters"] if one["name"] == cluster]
            if not told["clusters"] and told["redis"]["reachable"]:
                raise ConfigError([f"there is no cluster {cluster}"])
        history.add(told)
        return told

    if once:
        target.ask(lambda store: _once(store, report, history, interval, target.where, json_output=json_output))
        return
    if json_output:
        raise ConfigError(["--json goes with --once"])
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise ConfigError(["top needs a terminal; --once prints one look"])
    target.ask(lambda store: _watch(store, report, history, interval, target.where))


Report = Callable[[Store], Any]


async def _once(
    store: Store, report: Report, history: History, interval: float, where: str, *, json_output: bool
) -> None:
    await report(store)
    await asyncio.sleep(interval)
    told = await report(store)
    if json_output:
        rates = [
            {**e, "requests_per_second": history.rate(c["name"], e)} for c in told["clusters"] for e in c["endpoints"]
        ]
        by_address = iter(rates)
        for one in told["clusters"]:
            one["endpoints"] = [next(by_address) for _ in one["endpoints"]]
        print(json.dumps(told, indent=1))
    else:
        console = Console(highlight=False)
        if not console.is_terminal:
            console.width = NARROW
        console.print(screen(told, history, where, console.width))
    if not told["redis"]["reachable"]:
        raise typer.Exit(1)


async def _watch(store: Store, report: Report, history: History, interval: float, where: str) -> None:
    console, quit_asked = Console(highlight=False), asyncio.Event()
    with _keys(quit_asked), Live(console=console, screen=True, auto_refresh=False, vertical_overflow="crop") as live:
        while not quit_asked.is_set():
            told = await report(store)
            live.update(screen(told, history, where, console.width, height=console.height), refresh=True)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(interval):
                    await quit_asked.wait()


@contextlib.contextmanager
def _keys(quit_asked: asyncio.Event) -> Iterator[None]:
    """Set the event at q, Q, Ctrl-C and SIGTERM; the terminal is as before when the block ends, however it ends."""
    loop, stdin = asyncio.get_running_loop(), sys.stdin.fileno()
    before = termios.tcgetattr(stdin)

    def typed() -> None:
        keys = os.read(stdin, 1024)
        if not keys or b"q" in keys.lower():
            loop.remove_reader(stdin)
            quit_asked.set()

    try:
        tty.setcbreak(stdin)
        loop.add_reader(stdin, typed)
        for signum in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(signum, quit_asked.set)
        yield
    finally:
        loop.remove_reader(stdin)
        for signum in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(signum)
        termios.tcsetattr(stdin, termios.TCSADRAIN, before)
