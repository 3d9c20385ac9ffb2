"""Figures of the contenders beside one another, and the targets: met or missed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from rich.box import SIMPLE_HEAD
from rich.table import Table

from bench.report import size
from bench.rivals.contenders import GRPCIO, PLAIN, SMG_CACHE, SMG_P2C, VLLM_CACHE, VLLM_P2C, WIRE
from bench.rivals.measure import SMALL
from bench.rows import Row

BASES: Final = {
    PLAIN: "plain",
    VLLM_P2C: "vllm p2c",
    VLLM_CACHE: "vllm cache",
    SMG_P2C: "smg p2c",
    SMG_CACHE: "smg cache",
}
"""Whom the ratio columns compare with, and what stands over them."""
REQUEST_PATH: Final = ("envoy", "ext_proc", "router")
BUSY: Final = 16
"""Connections at which processor time and p99 are judged."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """One target: what was measured (None: its contender is not there), and what it may be at most."""

    name: str
    measured: float | None
    most: float
    unit: str

    @property
    def met(self) -> bool | None:
        """Whether the target is met; None when nothing was measured."""
        return None if self.measured is None else self.measured <= self.most


def path_us(row: Row) -> float:
    """CPU of the processes that a request passes through, in µs."""
    return sum(row.cpu_us.get(part, 0.0) for part in REQUEST_PATH)


def verdicts(rows: Sequence[Row]) -> list[Verdict]:
    """The targets, for bodies of 2 KiB. Processor time is judged at 16 connections."""
    at = {(row.name, row.connections): row for row in rows if row.body_bytes == SMALL}
    ours, plain = at.get((WIRE, BUSY)), at.get((PLAIN, 1))
    alone = at.get((WIRE, 1))
    vllm, smg = at.get((VLLM_CACHE, BUSY)), at.get((SMG_CACHE, BUSY))
    return [
        Verdict("ext_proc, CPU of a request", None if ours is None else ours.cpu_us["ext_proc"], 60.0, "µs"),
        Verdict("ext_proc + Envoy, CPU to vllm-router cache_aware", _ratio(ours, vllm, path_us), 1.0, "×"),
        Verdict("ext_proc + Envoy, CPU to smg cache_aware", _ratio(ours, smg, path_us), 1.4, "×"),
        Verdict("p50 at one connection over plain Envoy", _added(alone, plain), 0.35, "ms"),
        Verdict("p99 at 16 connections to smg cache_aware", _ratio(ours, smg, _p99), 1.0, "×"),
    ]


def _p99(row: Row) -> float:
    return row.p99_ms


def _ratio(ours: Row | None, theirs: Row | None, figure: Callable[[Row], float]) -> float | None:
    """None too where one answered nothing within its rounds."""
    if ours is None or theirs is None or not ours.requests or not theirs.requests:
        return None
    return figure(ours) / max(figure(theirs), 1e-9)


def _added(ours: Row | None, plain: Row | None) -> float | None:
    return None if ours is None or plain is None else ours.p50_ms - plain.p50_ms


def tables(rows: Sequence[Row]) -> list[Table]:
    """Rates, latencies and CPU by contender, then the CPU as a multiple of each other's."""
    at = {(row.name, row.connections, row.body_bytes): row for row in rows}
    return [_figures(rows), _ratios(rows, at), _targets(verdicts(rows))]


def _figures(rows: Sequence[Row]) -> Table:
    columns = (
        "requests/s",
        "p50 ms",
        "p99 ms",
        "envoy µs",
        "ext_proc µs",
        "router µs",
        "path µs",
        "beside µs",
        "errors",
    )
    view = _view("medians of the rounds; CPU in µs a request", columns)
    for row in rows:
        cpu = [_or_dash(row.cpu_us.get(part)) for part in REQUEST_PATH]
        errors = f"[red]{row.errors}[/]" if row.errors else "0"
        figures = (f"{row.rps:,.0f}", f"{row.p50_ms:.2f}", f"{row.p99_ms:.2f}", *cpu, f"{path_us(row):,.0f}")
        view.add_row(*_head(row), *figures, _or_dash(row.cpu_us.get("beside")), errors)
    return view


def _ratios(rows: Sequence[Row], at: Mapping[tuple[str, int, int], Row]) -> Table:
    names = [name for name in BASES if any(row.name == name for row in rows)]
    columns = [f"{what} × {BASES[name]}" for name in names for what in ("CPU", "p99")]
    view = _view("Tidegate to each other: CPU of a request's path, and p99", columns)
    for row in rows:
        if row.name in {WIRE, GRPCIO}:
            cells: list[str] = []
            for name in names:
                base = at.get((name, row.connections, row.body_bytes))
                cells += [_times(_ratio(row, base, path_us)), _times(_ratio(row, base, _p99))]
            view.add_row(*_head(row), *cells)
    return view


def _targets(found: Sequence[Verdict]) -> Table:
    view = Table(title="targets, 2 KiB bodies", box=SIMPLE_HEAD)
    for column in ("target", "measured", "at most", ""):
        view.add_column(column, no_wrap=True)
    for one in found:
        measured = "-" if one.measured is None else f"{one.measured:.2f} {one.unit}"
        word = {True: "[green]met[/]", False: "[red]missed[/]", None: "not measured"}[one.met]
        view.add_row(one.name, measured, f"{one.most:g} {one.unit}", word)
    return view


def _view(title: str, columns: Sequence[str]) -> Table:
    view = Table(title=title, box=SIMPLE_HEAD)
    view.add_column("contender", no_wrap=True)
    for column in ("conn", "body", *columns):
        view.add_column(column, justify="right")
    return view


def _head(row: Row) -> tuple[str, str, str]:
    return row.name, str(row.connections), size(row.body_bytes)


def _times(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _or_dash(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}"
