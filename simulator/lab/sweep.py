"""All runs of a report, over processes."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from typing import NamedTuple

from simulator.lab.arrivals import arrivals
from simulator.lab.conditions import Conditions
from simulator.lab.measure import Run, measure
from simulator.lab.policies import POLICIES
from simulator.lab.replay import Replay
from simulator.lab.trace import Trace


class Task(NamedTuple):
    """One run to do. `load` is a part of the capacity."""

    policy: str
    load: float
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a report covers. `capacity` is requests a second; `limit` calls of the trace, None: all. The seeds are
    `seeds` numbers from `first_seed` on."""

    trace: Trace
    conditions: Conditions
    capacity_rps: float
    policies: Sequence[str]
    loads: Sequence[float]
    seeds: int
    limit: int | None = None
    jitter: float = 1.0
    first_seed: int = 0

    @property
    def tasks(self) -> list[Task]:
        """Every policy at every load and seed."""
        seeds = range(self.first_seed, self.first_seed + self.seeds)
        return [Task(p, load, seed) for load in self.loads for p in self.policies for seed in seeds]


def run_one(plan: Plan, task: Task) -> Run:
    """One run; the same task of the same plan gives the same figures."""
    calls = arrivals(plan.trace, task.seed, task.load * plan.capacity_rps, plan.limit, plan.jitter)
    replay = Replay(calls, plan.conditions, POLICIES[task.policy], task.seed)
    replay.run()
    return measure(replay, plan.conditions, policy=task.policy, load=task.load, seed=task.seed)


def run_all(plan: Plan, jobs: int) -> Iterator[Run]:
    """The runs of all tasks as they end, in `jobs` processes. One job runs in this process."""
    if jobs == 1:
        yield from (run_one(plan, task) for task in plan.tasks)
        return
    # spawn: forking a process with threads (the progress bar's) may deadlock.
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=spawn, initializer=_take_plan, initargs=(plan,)) as pool:
        runs = [pool.submit(_run_planned, task) for task in plan.tasks]
        try:
            for run in as_completed(runs):
                yield run.result()
        finally:
            pool.shutdown(cancel_futures=True)


_PLAN: list[Plan] = []  # of a worker process: sent once, not with each task


def _take_plan(plan: Plan) -> None:
    _PLAN[:] = [plan]


def _run_planned(task: Task) -> Run:
    return run_one(_PLAN[0], task)
