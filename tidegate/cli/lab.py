"""`tidegate lab`: replay a trace in simulated time and compare policies."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from simulator.lab.capacity import capacity_rps
from simulator.lab.conditions import Conditions
from simulator.lab.measure import Run
from simulator.lab.plot_png import require_matplotlib, write_png
from simulator.lab.policies import POLICIES
from simulator.lab.presets import ENGINES
from simulator.lab.readers import read
from simulator.lab.report import Report
from simulator.lab.sweep import Plan, run_all
from simulator.lab.synthetic import KINDS, generate
from simulator.lab.tables import bars, tables
from simulator.lab.trace import Trace, fitted
from tidegate.domain.errors import ConfigError

SYNTHETIC = "synthetic:"
SYNTHETIC_REQUESTS = 12_000

Bounds = tuple[float, float]


def lab(
    trace: Annotated[
        str, typer.Option(help=f"Azure CSV or Mooncake JSONL, .gz or not; or {SYNTHETIC}{{{'|'.join(KINDS)}}}")
    ],
    replicas: Annotated[int, typer.Option(min=1, max=1000, help="engines of the fleet")] = 8,
    load: Annotated[str, typer.Option(help="parts of the measured capacity, 0.01 to 3, by commas")] = "0.6,0.8,0.9",
    policy: Annotated[str, typer.Option(help=f"by commas; all of: {', '.join(POLICIES)}")] = ",".join(POLICIES),
    seeds: Annotated[int, typer.Option(min=1, max=1000, help="runs of each policy at each load")] = 5,
    first_seed: Annotated[int, typer.Option(min=0, help="the first of the seeds; further ones count up")] = 0,
    json_path: Annotated[Path | None, typer.Option("--json", help="write the report for machines here")] = None,
    plot: Annotated[Path | None, typer.Option(help="write a PNG here; needs matplotlib")] = None,
    jobs: Annotated[int, typer.Option(min=1, help="processes")] = os.cpu_count() or 1,
    limit: Annotated[int | None, typer.Option(min=20, help="requests of the trace; default all")] = None,
    engine: Annotated[str, typer.Option(help=f"engine model: {', '.join(ENGINES)}")] = "8b",
    capacity: Annotated[
        float | None, typer.Option(min=1e-3, help="requests/s that load 1 stands for; measured when not given")
    ] = None,
    jitter: Annotated[
        float,
        typer.Option(min=0, max=1, help="part of the stamps' grid over which requests are spread; 0 keeps stamps"),
    ] = 1.0,
    pickers: Annotated[int, typer.Option(min=1, max=64, help="independent pickers that share the traffic")] = 1,
    rate_error: Annotated[
        float, typer.Option(min=-0.9, max=9, help="part by which the rates believed at first exceed the true ones")
    ] = 0.0,
    slow_replica: Annotated[float, typer.Option(min=0.01, max=1, help="speed of replica 0; nobody is told")] = 1.0,
    sample_ms: Annotated[float, typer.Option(min=1, help="between two samples of a replica")] = 100.0,
    delivery_ms: Annotated[str, typer.Option(help="from a sample's scrape to the picker: FROM,TO")] = "10,60",
    dispatch_ms: Annotated[str, typer.Option(help="from the pick to the engine: FROM,TO")] = "2,5",
    share_ms: Annotated[
        str, typer.Option(help="from a picker's message until another has it: MEDIAN,P99, log-normal")
    ] = "2.6,15",
    slo_ttft_ms: Annotated[float, typer.Option(min=1, help="objective for the first token")] = 2000.0,
    slo_tpot_ms: Annotated[float, typer.Option(min=1, help="objective for each further token, on average")] = 60.0,
) -> None:
    """Replay a trace in simulated time and compare policies."""
    conditions = Conditions(
        engine=ENGINES[_one_of("--engine", engine, tuple(ENGINES))],
        replicas=replicas,
        pickers=pickers,
        sample_ms=sample_ms,
        delivery_ms=_bounds("--delivery-ms", delivery_ms),
        dispatch_ms=_bounds("--dispatch-ms", dispatch_ms),
        share_ms=_bounds("--share-ms", share_ms),
        rate_error=rate_error,
        slow_replica=slow_replica,
        slo_ttft_ms=slo_ttft_ms,
        slo_tpot_ms=slo_tpot_ms,
    )
    policies = [_one_of("--policy", name, tuple(POLICIES)) for name in _parts(policy)]
    loads = [_load(part) for part in _parts(load)]
    if not policies or not loads:
        raise ConfigError(["--policy and --load name at least one each"])
    if plot is not None:
        require_matplotlib()
    console = Console(highlight=False)
    requests = _trace(trace, limit, conditions, console)
    most = capacity or capacity_rps(requests, conditions)
    plan = Plan(
        trace=requests,
        conditions=conditions,
        capacity_rps=most,
        policies=policies,
        loads=loads,
        seeds=seeds,
        first_seed=first_seed,
        limit=limit,
        jitter=jitter,
    )
    _show(Report(plan, _run(plan, jobs)), console, json_path, plot)


def _trace(name: str, limit: int | None, conditions: Conditions, console: Console) -> Trace:
    if name.startswith(SYNTHETIC):
        kind = _one_of("--trace", name.removeprefix(SYNTHETIC), tuple(KINDS))
        trace = generate(kind, limit or SYNTHETIC_REQUESTS)
    else:
        trace = read(Path(name))
    trace, cut = fitted(trace, conditions.engine.max_model_len)
    if cut:
        console.print(f"{cut} requests are longer than the engine's context and were cut to it")
    return trace


def _run(plan: Plan, jobs: int) -> list[Run]:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task(f"replaying {plan.trace.name}", total=len(plan.tasks))
        runs = []
        for run in run_all(plan, jobs):
            runs.append(run)
            progress.advance(bar)
    return runs


def _show(report: Report, console: Console, json_path: Path | None, plot: Path | None) -> None:
    if not console.is_terminal:
        console.width = 200  # piped output is for reading, not for a screen
    for part in (*tables(report), *bars(report)):
        console.print(part)
    if json_path is not None:
        try:
            json_path.write_text(json.dumps(report.as_json(), indent=1) + "\n")
        except OSError as exc:
            raise ConfigError([f"{json_path}: cannot be written: {exc.strerror}"]) from exc
    if plot is not None:
        write_png(report, plot)


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _one_of(flag: str, name: str, names: tuple[str, ...]) -> str:
    if name not in names:
        raise ConfigError([f"{flag}: there is no {name!r}; there are: {', '.join(names)}"])
    return name


def _load(text: str) -> float:
    try:
        load = float(text)
    except ValueError:
        load = 0.0
    if not 0.01 <= load <= 3:
        raise ConfigError([f"--load: {text!r} is no part of the capacity; give 0.01 to 3"])
    return load


def _bounds(flag: str, text: str) -> Bounds:
    try:
        low, high = (float(part) for part in (_parts(text) * 2)[:2])
    except ValueError:
        low, high = -1.0, -1.0
    if not 0 <= low <= high:
        raise ConfigError([f"{flag}: {text!r} is no pair of milliseconds FROM,TO"])
    return low, high
