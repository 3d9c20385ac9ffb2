"""A report on a terminal: a table a load, and bars."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

from rich import box
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from simulator.lab.confidence import Estimate
from simulator.lab.policies import ORACLE
from simulator.lab.report import JUDGED, Report

_COLUMNS: Final = (
    ("TTFT p50", "ttft_p50_ms", 1e-3, " s"),
    ("TTFT p90", "ttft_p90_ms", 1e-3, " s"),
    ("TTFT p99", "ttft_p99_ms", 1e-3, " s"),
    ("e2e p99", "e2e_p99_ms", 1e-3, " s"),
    ("TPOT p90", "tpot_p90_ms", 1.0, " ms"),
    ("goodput/s", "goodput_rps", 1.0, ""),
    ("good", "good_ratio", 100.0, " %"),
    ("hits", "hit_ratio", 100.0, " %"),
    ("imbalance", "imbalance", 1.0, ""),
)
_BAR_WIDTH: Final = 44


def tables(report: Report) -> Iterator[RenderableType]:
    """One table a load: means over the seeds ± half the 95 % interval, and how pick compares."""
    for load in report.plan.loads:
        table = Table(title=_title(report, load), title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1))
        table.add_column("policy", no_wrap=True)
        for name, *_ in _COLUMNS:
            table.add_column(name, justify="right", no_wrap=True)
        for policy in report.plan.policies:
            cells = (_cell(report.estimate(policy, load, figure), factor, unit) for _, figure, factor, unit in _COLUMNS)
            table.add_row(policy, *cells, style="bold" if policy == JUDGED else "dim" if policy == ORACLE else "")
        yield table
        yield from _verdict(report, load)


def bars(report: Report) -> Iterator[Text]:
    """TTFT p90 of every policy at every load, on one logarithmic scale."""
    names, loads = report.plan.policies, report.plan.loads
    means = {(n, load): report.estimate(n, load, "ttft_p90_ms").mean / 1000 for load in loads for n in names}
    low, high = min(means.values()), max(means.values())
    for load in loads:
        yield Text(f"TTFT p90 at load {load:g}, logarithmic", style="bold")
        for name in names:
            length = _length(means[name, load], low, high)
            yield Text(f"{name:>18} {'█' * length} {means[name, load]:.3g} s")


def _length(value: float, low: float, high: float) -> int:
    if value <= 0 or low <= 0 or high <= low:
        return 1
    return 1 + round((_BAR_WIDTH - 1) * math.log(value / low) / math.log(high / low))


def _title(report: Report, load: float) -> str:
    plan = report.plan
    offered = f"{load * plan.capacity_rps:.2f} of {plan.capacity_rps:.2f} requests/s"
    return f"{plan.trace.name}, load {load:g} ({offered}), {plan.seeds} seeds"


def _cell(value: Estimate, factor: float, unit: str) -> str:
    mean, width = value.mean * factor, value.half_width * factor
    digits = max(0, 2 - math.floor(math.log10(abs(mean)))) if mean else 0
    spread = "" if math.isnan(width) else f" ±{width:.{min(digits, 3)}f}"
    return f"{mean:.{min(digits, 3)}f}{spread}{unit}"


def _ratio(value: Estimate) -> str:
    spread = "" if math.isnan(value.half_width) else f" ±{value.half_width:.3f}"
    return f"{value.mean:.3f}{spread} ×"


def _verdict(report: Report, load: float) -> Iterator[Text]:
    """Pick against the best baseline and the oracle, seed by seed."""
    if JUDGED not in report.plan.policies:
        return
    for name, figure, least in (("TTFT p90", "ttft_p90_ms", True), ("goodput", "goodput_rps", False)):
        said = []
        if (best := report.best_baseline(load, figure, least=least)) is not None and best[1]:
            said.append(f"{_ratio(report.ratio(JUDGED, best[0], load, figure))} the best baseline's ({best[0]})")
        if ORACLE in report.plan.policies:
            said.append(f"{_ratio(report.ratio(JUDGED, ORACLE, load, figure))} the oracle's")
        if said:
            yield Text(f"  pick's {name}: {', '.join(said)}")
