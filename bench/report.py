"""Rows as a table for people and as JSON for whatever compares runs."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

from bench.rows import Row

OUT = Path(__file__).with_name("out") / "latest.json"


def tables(rows: Sequence[Row], load: str) -> list[Table]:
    """Rates and latencies, then CPU; × compares with the first scenario at the same number of connections and body."""
    first = {_point(row): row for row in reversed(rows) if row.name == rows[0].name}
    return [_rates(rows, first, load), _cpu(rows, first)]


def _point(row: Row) -> tuple[int, int]:
    return row.connections, row.body_bytes


def _rates(rows: Sequence[Row], first: Mapping[tuple[int, int], Row], load: str) -> Table:
    view = _view(
        f"chat bodies; {load}; {os.cpu_count()} cores shared by all",
        ("requests/s", "×", "p50 ms", "×", "p99 ms", "×", "errors"),
    )
    for row in rows:
        base = first.get(_point(row))
        cells = [_times(f"{row.rps:,.0f}", row.rps, base.rps if base else None)]
        cells += [_times(f"{row.p50_ms:.2f}", row.p50_ms, base.p50_ms if base else None)]
        cells += [_times(f"{row.p99_ms:.2f}", row.p99_ms, base.p99_ms if base else None)]
        errors = f"[red]{row.errors}[/]" if row.errors else "0"
        view.add_row(
            row.name, str(row.connections), size(row.body_bytes), *(text for pair in cells for text in pair), errors
        )
    return view


def _cpu(rows: Sequence[Row], first: Mapping[tuple[int, int], Row]) -> Table:
    names = list(dict.fromkeys(name for row in rows for name in row.cpu_us))
    view = _view("CPU, µs a request, user and system", (*names, "sum", "×"))
    for row in rows:
        base = first.get(_point(row))
        cells = [f"{row.cpu_us[name]:,.0f}" if name in row.cpu_us else "-" for name in names]
        spent = sum(row.cpu_us.values())
        total = _times(f"{spent:,.0f}", spent, sum(base.cpu_us.values()) if base else None)
        view.add_row(row.name, str(row.connections), size(row.body_bytes), *cells, *total)
    return view


def ext_proc_table(rows: Sequence[Mapping[str, Any]], target: float) -> Table:
    """The rows of `ext_proc_cpu.measure`: our server beside a bare one."""
    view = Table(title=f"CPU of ext_proc, µs a request; target ratio ≤ {target}", box=SIMPLE_HEAD)
    view.add_column("server", no_wrap=True)
    for column in ("requests/s", "µs", "ratio"):
        view.add_column(column, justify="right")
    for row in rows:
        colour = "red" if row["ratio"] > target else "green"
        ratio = f"[{colour}]{row['ratio']:.2f}[/]"
        view.add_row(row["name"], f"{row['rps']:,.0f}", f"{row['cpu_us']['ext_proc']:,.0f}", ratio)
    return view


def figures_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Rows of {name, value, unit, target}: single figures, and what each may be at most."""
    view = Table(title="figures with their targets", box=SIMPLE_HEAD)
    view.add_column("figure", no_wrap=True)
    for column in ("measured", "target"):
        view.add_column(column, justify="right", no_wrap=True)
    for row in rows:
        number = f"{row['value']:,.0f}" if row["value"] >= 100 else f"{row['value']:.3g}"
        value, target = f"{number} {row['unit']}", row["target"]
        colour = "red" if target is not None and row["value"] > target else "green"
        view.add_row(row["name"], value if target is None else f"[{colour}]{value}[/]", _at_most(target))
    return view


def _at_most(target: float | None) -> str:
    return "" if target is None else f"≤ {target:g}"


def _view(title: str, columns: Sequence[str]) -> Table:
    view = Table(title=title, box=SIMPLE_HEAD)
    view.add_column("scenario", no_wrap=True)
    for column in ("conn", "body", *columns):
        view.add_column(column, justify="right", no_wrap=True)
    return view


def _times(text: str, value: float, base: float | None) -> tuple[str, str]:
    return text, f"{value / base:.2f}" if base else "-"


def size(count: int) -> str:
    """Bytes as people say them: 2 KiB, 10 MiB, or 2000 B where it is no whole number of them."""
    for unit, factor in (("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= factor and count % factor == 0:
            return f"{count // factor} {unit}"
    return f"{count} B"


def write(path: Path, rows: Iterable[Row], facts: Mapping[str, Any]) -> None:
    """Write `{"rows": [...]}` with the machine and `facts` beside them, whole or not at all."""
    machine = {"cpus": os.cpu_count(), "machine": platform.machine(), "python": platform.python_version()}
    document = {"machine": machine, **facts, "rows": [asdict(row) for row in rows]}
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    part.write_text(json.dumps(document, indent=1) + "\n")
    part.replace(path)
