"""`python -m bench`: run the scenarios, print the tables, write bench/out/latest.json."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.status import Status

from bench import (
    agent_fleet,
    agent_latency,
    body_memory,
    controller_tick,
    ext_proc_cpu,
    ext_proc_parts,
    fallback,
    leader_takeover,
    metrics_cost,
    outcomes_cost,
    outcomes_truth,
    page_parse,
    parse_cost,
    pick_cost,
    picks_shared,
    report,
    rollouts,
    splits,
    weight_shift,
    xds_process,
    xds_scale,
)
from bench.body import chat_body
from bench.driver import measure
from bench.load import Generator, generator
from bench.overload import measure as overload
from bench.rivals import measure as rivals
from bench.rivals import verdict
from bench.rows import Row
from bench.scenario import Scenario
from bench.scenarios import SCENARIOS
from bench.upstream import upstream
from tidegate.domain.errors import TidegateError

# Not a way from client to engine, so no scenario: two servers side by side, `ext_proc_cpu.measure`.
EXT_PROC_CPU = "ext-proc-cpu"
# Several ways at once, loaded by turns, with figures of their own: `bench.rivals`.
RIVALS = "rivals"
# Benches that send no requests at all: what runs meanwhile, and rows of figures with their targets.
APART: dict[str, tuple[str, Callable[[float], list[dict[str, Any]]]]] = {
    "memory": ("64 bodies of 10 MiB at once", body_memory.measure),
    "parse": ("reading a body, beside one bare decode of it", lambda _: parse_cost.figures()),
    "pick": ("choosing the replica, and the prefix index", lambda _: pick_cost.figures()),
    "parts": ("where ext_proc's time for one request goes", lambda _: ext_proc_parts.figures()),
    "page": ("reading an engine's metrics page", lambda _: page_parse.figures()),
    "agent-latency": ("an agent that reads eight engines", lambda seconds: agent_latency.measure(4 * seconds)),
    "agent-fleet": ("1,000 endpoints published ten times a second", lambda seconds: agent_fleet.measure(2 * seconds)),
    "xds-scale": (
        "1,000 endpoints before 50 Envoys, both protocols",
        lambda seconds: xds_scale.measure(seconds=seconds),
    ),
    "xds-process": (
        "`tidegate xds` with its controller at 1,000 endpoints",
        lambda seconds: xds_process.measure(2 * seconds),
    ),
    "controller-tick": (
        "the controller at 1,000 endpoints",
        lambda seconds: controller_tick.measure(2 * seconds),
    ),
    "leader-takeover": ("a leading controller killed, another at work", lambda _: leader_takeover.measure()),
    "picks-shared": (
        "two ext_procs that tell one another their dispatches",
        lambda seconds: picks_shared.measure(2 * seconds),
    ),
    "outcomes": ("the access log at 2,000 requests/s", lambda seconds: outcomes_cost.measure(2 * seconds)),
    "metrics": (
        "ext_proc with metrics and traces against one without",
        lambda seconds: metrics_cost.measure(10 * seconds),
    ),
    "outcomes-truth": (
        "what Envoy tells against a client's own figures",
        lambda seconds: outcomes_truth.measure(8 * seconds),
    ),
    "fallback": ("ext_proc dies under traffic", lambda seconds: fallback.measure(round(3 * seconds))),
    "overload": (
        "three times what the engines can serve",
        lambda seconds: overload.measure(15 * seconds),
    ),
    "splits": (
        "from redis-cli HSET of a split to traffic, and shadows",
        lambda seconds: splits.measure(round(15 * seconds), round(200 * seconds)),
    ),
    "rollouts": ("five canaries, and what becomes of them", lambda _: rollouts.measure()),
    "weight-shift": (
        "from redis-cli HSET to traffic on a real Envoy",
        lambda seconds: weight_shift.measure(round(15 * seconds)),
    ),
}
# Connections and body: an ordinary long prompt, a whole book, and what the limit still lets through.
LARGE = [(8, 32 << 10), (8, 220 << 10), (8, 2 << 20), (4, 10 << 20)]
NAMES = (*(scenario.name for scenario in SCENARIOS), EXT_PROC_CPU, RIVALS, *APART)

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
console = Console(width=None if sys.stdout.isatty() else 150)


def chosen(only: Sequence[str]) -> list[str]:
    """These names in their order of running, or all. Raises BadParameter for a name that is none."""
    if unknown := sorted(set(only) - set(NAMES)):
        raise typer.BadParameter(f"no scenario is called {', '.join(unknown)}; there are {', '.join(NAMES)}")
    return [name for name in NAMES if not only or name in only]


def counts(text: str) -> list[int]:
    """Numbers of connections from `1,16,64`. Raises BadParameter for anything but whole numbers from 1."""
    try:
        numbers = [int(part) for part in text.split(",")]
    except ValueError:
        numbers = [0]
    if min(numbers) < 1:
        raise typer.BadParameter(f"{text!r} is not a list of whole numbers from 1, such as 1,16,64")
    return numbers


@app.command()
def bench(
    only: Annotated[list[str] | None, typer.Option(help="run this one alone; repeatable")] = None,
    seconds: Annotated[float, typer.Option(min=1, help="seconds of load for each row")] = 4.0,
    connections: Annotated[str, typer.Option(help="connections, each with one request under way")] = "1,16,64",
    body_bytes: Annotated[int, typer.Option(min=128, help="size of the chat body")] = 2048,
    large: Annotated[bool, typer.Option("--large/--no-large", help="also measure bodies up to 10 MiB")] = True,
    quick: Annotated[bool, typer.Option("--quick", help="rivals in about a minute: one round of two points")] = False,
    out: Annotated[Path, typer.Option(help="where the rows are written")] = report.OUT,
) -> None:
    """Measure what a request costs direct, through plain Envoy, and through Tidegate."""
    names, numbers, load = chosen(only or []), counts(connections), generator()
    if load.name != "wrk":
        console.print(f"[yellow]{load.remark}[/]")
    began = time.time()
    try:
        picked = [s for s in SCENARIOS if s.name in names]
        rows = measure_all(picked, load, sweep(numbers, body_bytes, large=large), seconds)
        beside = ext_proc_rows(seconds) if EXT_PROC_CPU in names else []
        compared = rival_rows(seconds, quick=quick) if RIVALS in names else []
        figures = [row for name in APART if name in names for row in apart_rows(name, seconds)]
    except (RuntimeError, TidegateError) as exc:
        console.print(str(exc), style="red", markup=False)
        raise typer.Exit(1) from exc
    views = report.tables(rows, load.remark) if rows else []
    views += [report.ext_proc_table(beside, ext_proc_cpu.TARGET_RATIO)] if beside else []
    views += verdict.tables(compared) if compared else []
    views += [report.figures_table(figures)] if figures else []
    for view in views:
        console.print(view)
    facts = {"measured_at": int(began), "load": load.name, "seconds": seconds}
    told = {"ext_proc_cpu": beside, "figures": figures, "rivals": [asdict(row) for row in compared]}
    report.write(out, rows, {**facts, **told})
    console.print(f"written to {out}")
    if any(row.errors for row in [*rows, *compared]):
        console.print("[red]Some requests failed: these rows measure something else.[/]")
        raise typer.Exit(1)


def ext_proc_rows(seconds: float) -> list[dict[str, Any]]:
    """ext_proc beside a bare gRPC server, with as many requests as take some `seconds` each."""
    with console.status("ext_proc beside a bare grpc.aio server that answers fixed bytes"):
        return ext_proc_cpu.measure(requests=round(400 * seconds), rounds=5)


def rival_rows(seconds: float, *, quick: bool) -> list[Row]:
    """Tidegate and other routers side by side, with three rounds of nearly `seconds` for each and point."""
    plan = rivals.QUICK if quick else rivals.Plan(seconds=max(1.0, 0.75 * seconds))
    with console.status("routers side by side") as status:
        return rivals.measure(plan, lambda said: tell(status, said))


def tell(status: Status, said: str) -> None:
    """What goes on, in the status line; what is left out stays on the screen."""
    status.update(said)
    if "left out" in said:
        console.print(f"[yellow]{said}[/]")


def apart_rows(name: str, seconds: float) -> list[dict[str, Any]]:
    """The figures of one bench that stands apart."""
    about, measured = APART[name]
    with console.status(about):
        return measured(seconds)


def sweep(numbers: list[int], body_bytes: int, *, large: bool) -> list[tuple[int, int]]:
    """(connections, bytes of the body) of each row: the asked size at each number, then the larger ones."""
    return [(number, body_bytes) for number in numbers] + (LARGE if large else [])


def measure_all(scenarios: list[Scenario], load: Generator, points: list[tuple[int, int]], seconds: float) -> list[Row]:
    """Every scenario at every point of the sweep. Raises RuntimeError when something does not start."""
    rows: list[Row] = []
    if not scenarios:
        return rows
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as name, Progress(*columns, console=console) as bar:
        folder = Path(name)
        for size in {size for _, size in points}:
            (folder / f"body-{size}.json").write_bytes(chat_body(size))
        task = bar.add_task("starting the engines", total=len(scenarios) * len(points))
        with upstream(folder) as engines:
            for scenario in scenarios:
                bar.update(task, description=f"starting {scenario.name}")
                (own := folder / scenario.name).mkdir()
                with scenario.target(engines, own) as target:
                    for number, size in points:
                        bar.update(task, description=f"{scenario.about}, {number} × {report.size(size)}")
                        body = folder / f"body-{size}.json"
                        row = measure(scenario.name, target, load, body=body, connections=number, seconds=seconds)
                        rows.append(row)
                        bar.advance(task)
    return rows


if __name__ == "__main__":
    app()
