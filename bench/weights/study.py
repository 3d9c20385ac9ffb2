"""Draw the step response of the weight rule, as docs/weights.md shows it: `python -m bench.weights.study OUT.png`.

Two FP16 and two INT4 replicas at 80 % load; one FP16 replica falls to half its speed and comes back. Samples are a
second old, and latencies tell of requests that ended.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.weights.fleet import Fleet
from bench.weights.loop import Run, Slowdown, Tidegate, run
from tidegate.domain.ewma import EwmaSettings
from tidegate.domain.weight_settings import WeightSettings
from tidegate.domain.weights import Rules

SPEEDS = (1.0, 1.0, 1.36, 1.36)
SLOW, BACK, END = 120.0, 240.0, 360.0


@dataclass(slots=True)
class Unsmoothed(Tidegate):
    """capacity × (1 − load) at every tick, as it comes."""

    rules: Rules = field(
        default_factory=lambda: Rules(
            ewma=EwmaSettings(alpha=1.0, window=1),
            weight=WeightSettings(settle_seconds=2.0, alarm_ratio=0.05, most_step=1000.0),
        )
    )

    def tick(self, at: float, samples: Any) -> dict[str, float]:
        super(Unsmoothed, self).tick(at, samples)
        return {one.address: max(0.01, one.memory.smoothed.value) for one in self.decided if one.memory.smoothed}


def response(rule: Tidegate, seed: int = 2) -> Run:
    """The run that the plot shows."""
    changes = (Slowdown(SLOW), Slowdown(BACK, factor=1.0))
    return run(Fleet(SPEEDS, load=0.8, seed=seed), rule, seconds=END, slowdowns=changes)


def ideal(at: float) -> float:
    """The first replica's share of what the fleet delivers."""
    own = 0.5 if SLOW <= at < BACK else 1.0
    return own / (own + sum(SPEEDS[1:]))


def draw(out: Path) -> None:
    """Write the plot as PNG."""
    import matplotlib as mpl  # noqa: PLC0415 - a plot is drawn by hand, and nothing else here needs it

    mpl.use("Agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415

    figure, axes = plt.subplots(figsize=(9, 4.2), dpi=110)
    for name, rule, colour, width in (
        ("capacity × (1 − load), not smoothed", Unsmoothed(), "#c9a0a0", 0.8),
        ("as published", Tidegate(), "#205080", 1.8),
    ):
        shares = response(rule).shares
        axes.plot([at for at, _ in shares], [one[0] for _, one in shares], color=colour, linewidth=width, label=name)
    axes.plot([at for at, _ in shares], [ideal(at) for at, _ in shares], "k--", linewidth=1, label="ideal")
    axes.set(xlabel="seconds", ylabel="share of one FP16 replica", xlim=(0, END), ylim=(0, 0.4))
    axes.annotate("half as fast", (SLOW, 0.37))
    axes.annotate("as fast as before", (BACK, 0.37))
    axes.legend(loc="lower right")
    figure.tight_layout()
    figure.savefig(out)


if __name__ == "__main__":
    draw(Path(sys.argv[1]))
