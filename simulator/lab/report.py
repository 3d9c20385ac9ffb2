"""A sweep's outcome: means by policy and load, the ratio to the best baseline, and the report for machines."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final

from simulator.lab.confidence import Estimate, estimate
from simulator.lab.measure import Run
from simulator.lab.policies import ORACLE
from simulator.lab.sweep import Plan, Task

JUDGED: Final = "pick"


class Report:
    """The runs of a plan, in the plan's order whatever the order they ended in."""

    def __init__(self, plan: Plan, runs: Sequence[Run]) -> None:
        self.plan = plan
        order = {task: index for index, task in enumerate(plan.tasks)}
        self.runs = sorted(runs, key=lambda run: order[Task(run.policy, run.load, run.seed)])

    def estimate(self, policy: str, load: float, figure: str) -> Estimate:
        """Mean and interval of a figure over the seeds."""
        return estimate([getattr(run, figure) for run in self.runs if (run.policy, run.load) == (policy, load)])

    def ratio(self, policy: str, other: str, load: float, figure: str) -> Estimate:
        """A figure over another policy's, seed by seed: both meet the same calls, so that the seeds' spread cancels."""
        theirs = {run.seed: getattr(run, figure) for run in self.runs if (run.policy, run.load) == (other, load)}
        own = [run for run in self.runs if (run.policy, run.load) == (policy, load)]
        return estimate([getattr(run, figure) / theirs[run.seed] if theirs[run.seed] else math.nan for run in own])

    def best_baseline(self, load: float, figure: str, *, least: bool) -> tuple[str, float] | None:
        """The baseline (neither pick nor oracle) with the best mean of a figure; None without baselines."""
        names = [name for name in self.plan.policies if name not in {JUDGED, ORACLE}]
        if not names:
            return None
        best = (min if least else max)(names, key=lambda name: self.estimate(name, load, figure).mean)
        return best, self.estimate(best, load, figure).mean

    def as_json(self) -> dict[str, Any]:
        """The report for machines; docs/lab.md lists the keys."""
        plan = self.plan
        conditions = asdict(plan.conditions)
        return {
            "trace": plan.trace.name,
            "capacity_rps": plan.capacity_rps,
            "requests": min(plan.limit or len(plan.trace.requests), len(plan.trace.requests)),
            "jitter": plan.jitter,
            "conditions": conditions,
            "runs": [run.as_json() for run in self.runs],
        }
