"""Figures, their confidence, and the report."""

from __future__ import annotations

import math
from statistics import mean

import pytest

from simulator.lab.conditions import Conditions
from simulator.lab.confidence import estimate
from simulator.lab.measure import FIGURES, Run, measure, percentile
from simulator.lab.report import Report
from simulator.lab.sweep import Plan, Task, run_all
from simulator.lab.tables import bars, tables
from simulator.lab.trace import Trace
from tests.lab.conftest import ReplayOf


def run_of(policy: str, seed: int, ttft_p90_ms: float, load: float = 0.8) -> Run:
    figures = dict.fromkeys((*FIGURES, "offered_rps", "good_ratio", "tpot_p90_ms"), 1.0)
    figures["ttft_p90_ms"] = ttft_p90_ms
    return Run(policy=policy, load=load, seed=seed, preemptions=0, requests=9, **figures)


def plan_of(trace: Trace, policies: tuple[str, ...], seeds: int = 2) -> Plan:
    return Plan(
        trace=trace, conditions=Conditions(), capacity_rps=8.0, policies=policies, loads=(0.8,), seeds=seeds, limit=60
    )


@pytest.mark.parametrize(("part", "value"), [(0.5, 5), (0.9, 9), (0.99, 10), (0.0, 1), (1.0, 10)])
def test_percentiles_are_nearest_ranks(part: float, value: float) -> None:
    assert percentile(range(1, 11), part) == value


def test_an_interval_is_students() -> None:
    mean_, half = estimate([1.0, 2.0, 3.0, 4.0, 5.0])
    assert mean_ == 3.0
    assert half == pytest.approx(2.776 * math.sqrt(2.5) / math.sqrt(5))
    assert math.isnan(estimate([7.0]).half_width)


def test_figures_are_those_of_the_calls(replay_of: ReplayOf) -> None:
    replay = replay_of("round_robin", rate=4.0)
    run = measure(replay, Conditions(), policy="round_robin", load=0.5, seed=1)
    calls = replay.calls
    ttft = [c.first_token_at - c.arrived_at for c in calls]
    good = [
        t < 2.0 and (c.finished_at - c.first_token_at) / max(1, c.output_tokens - 1) < 0.06
        for t, c in zip(ttft, calls, strict=True)
    ]
    assert run.goodput_rps == pytest.approx(sum(good) / (calls[-1].arrived_at - calls[0].arrived_at))
    assert run.good_ratio == mean(good)
    assert run.ttft_p50_ms <= run.ttft_p90_ms <= run.ttft_p99_ms <= max(ttft) * 1000
    assert run.hit_ratio == sum(c.cached_tokens for c in calls) / sum(c.prompt_tokens for c in calls)
    loads = [0] * 8
    for call in calls:
        loads[call.replica] += call.prompt_tokens - call.cached_tokens
    assert run.imbalance == pytest.approx(max(loads) / mean(loads))


def test_a_report_has_every_run_once_with_its_figures(conversation: Trace) -> None:
    plan = plan_of(conversation, ("round_robin", "oracle"))
    report = Report(plan, list(reversed(list(run_all(plan, 1)))))
    runs = report.as_json()["runs"]
    assert [(r["policy"], r["seed"]) for r in runs] == [
        ("round_robin", 0),
        ("round_robin", 1),
        ("oracle", 0),
        ("oracle", 1),
    ]
    for run in runs:
        assert {"policy", "load", "seed", *FIGURES} <= run.keys()
        assert all(isinstance(run[name], float) for name in FIGURES)


def test_processes_give_what_one_gives(conversation: Trace) -> None:
    plan = plan_of(conversation, ("least_request",), seeds=2)
    by_seed = {run.seed: run for run in run_all(plan, 2)}
    assert [by_seed[0], by_seed[1]] == list(run_all(plan, 1))


def test_pick_is_compared_with_the_best_baseline_and_the_oracle(conversation: Trace) -> None:
    plan = plan_of(conversation, ("pick", "random", "cache_aware", "oracle"), seeds=1)
    values = {"pick": 600.0, "random": 900.0, "cache_aware": 800.0, "oracle": 500.0}
    report = Report(plan, [run_of(name, 0, value) for name, value in values.items()])
    assert report.ratio("pick", "oracle", 0.8, "ttft_p90_ms").mean == 1.2
    assert report.best_baseline(0.8, "ttft_p90_ms", least=True) == ("cache_aware", 800.0)
    said = [str(part) for part in tables(report)]
    assert any("0.750 × the best baseline's (cache_aware), 1.200 × the oracle's" in line for line in said)
    lengths = {line.plain.split()[0]: line.plain.count("█") for line in list(bars(report))[1:]}
    assert lengths["oracle"] < lengths["pick"] < lengths["cache_aware"] < lengths["random"]


def test_tasks_cover_policies_loads_and_seeds(conversation: Trace) -> None:
    plan = plan_of(conversation, ("pick", "random"), seeds=2)
    assert len(plan.tasks) == len(set(plan.tasks)) == 4
    assert Task("random", 0.8, 1) in plan.tasks
