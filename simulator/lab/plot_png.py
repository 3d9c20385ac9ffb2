"""A report as a picture. matplotlib is the extra `tidegate[lab]`, loaded when a picture is asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from simulator.lab.policies import ORACLE
from simulator.lab.report import JUDGED, Report
from tidegate.domain.errors import ConfigError

_PANELS: Final = (
    ("TTFT p90, s", "ttft_p90_ms", 1e-3, True),
    ("end to end p99, s", "e2e_p99_ms", 1e-3, True),
    ("goodput, requests/s", "goodput_rps", 1.0, False),
    ("hit ratio", "hit_ratio", 1.0, False),
    ("imbalance, max/mean of uncached prefill", "imbalance", 1.0, False),
    ("TPOT p90, ms", "tpot_p90_ms", 1.0, False),
)


def require_matplotlib() -> Any:
    """The figure module. Raises ConfigError that says what to install."""
    try:
        from matplotlib import figure  # noqa: PLC0415
    except ImportError as exc:
        raise ConfigError(["--plot needs matplotlib: pip install 'tidegate[lab]'"]) from exc
    return figure


def write_png(report: Report, path: Path) -> None:
    """Six panels over the load, a line a policy, with 95 % intervals. Raises ConfigError: no matplotlib, no place."""
    picture = require_matplotlib().Figure(figsize=(16, 9), layout="constrained")
    for axes, (title, figure, factor, logarithmic) in zip(picture.subplots(2, 3).flat, _PANELS, strict=True):
        for policy in report.plan.policies:
            _line(axes, report, policy, figure, factor)
        axes.set(title=title, xlabel="load", yscale="log" if logarithmic else "linear")
        axes.grid(alpha=0.3)
    picture.axes[0].legend(fontsize="small")
    picture.suptitle(f"{report.plan.trace.name}: {report.plan.seeds} seeds, capacity {report.plan.capacity_rps:.2f}/s")
    try:
        picture.savefig(path, format="png", dpi=110)
    except OSError as exc:
        raise ConfigError([f"{path}: cannot be written: {exc.strerror}"]) from exc


def _line(axes: Any, report: Report, policy: str, figure: str, factor: float) -> None:
    estimates = [report.estimate(policy, load, figure) for load in report.plan.loads]
    axes.errorbar(
        report.plan.loads,
        [e.mean * factor for e in estimates],
        yerr=[e.half_width * factor for e in estimates] if report.plan.seeds > 1 else None,
        label=policy,
        linewidth=2.5 if policy == JUDGED else 1.2,
        linestyle="--" if policy == ORACLE else "-",
        marker="o",
        markersize=3,
        capsize=2,
    )
