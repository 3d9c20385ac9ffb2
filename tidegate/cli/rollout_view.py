"""What `tidegate rollout show` and `list` say: values in the shape of docs/rollouts.md, and tables for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape

from tidegate.cli.look import age, bar, new_table
from tidegate.domain.lifetime import duration_text, time_text
from tidegate.domain.outcomes.ending import Ending
from tidegate.domain.outcomes.version import Figures
from tidegate.domain.rollout.course import GOING, Phase, State, ends_ms, place
from tidegate.domain.rollout.evidence import Evidence
from tidegate.domain.rollout.plan import Plan, percent, read_plan
from tidegate.domain.rollout.rule import judged
from tidegate.domain.routing import PERMILLE
from tidegate.domain.split import fields_of
from tidegate.store.rollouts import FIGURES, STATE, decode_evidence, decode_state


def values(model: str, fields: Mapping[str, str]) -> dict[str, Any]:
    """One rollout. Times are Unix milliseconds by Redis' clock, shares parts per thousand, rates 0…1; unknown is None.

    `versions` are canary and stable since the step began: `requests` are those that are judged (served and faults).
    """
    state, evidence = decode_state(fields.get(STATE)), decode_evidence(fields.get(FIGURES))
    if state is None:
        return _untouched(model, fields)
    plan = _plan(state, fields)
    return {
        "model": model,
        "phase": str(state.phase),
        "place": _place(state, plan),
        "from": state.stable or None,
        "to": state.canary or fields.get("to"),
        "step": state.step + 1 if plan else None,
        "steps_permille": list(plan.steps) if plan else None,
        "share_permille": _share(state),
        "began_ms": state.began_ms or None,
        "since_ms": state.since_ms or None,
        "looked_ms": state.looked_ms,
        "hold_ends_ms": ends_ms(plan, state) if plan and state.phase in GOING else None,
        "verdict": str(state.verdict),
        "figures": state.figures or None,
        "why": state.why,
        "limits": _limits(plan),
        "versions": [_version(name, evidence) for name in (state.canary, state.stable) if name],
        "before": state.before or None,
    }


def _untouched(model: str, fields: Mapping[str, str]) -> dict[str, Any]:
    why = "no controller has looked at it yet"
    said = {"model": model, "phase": "asked", "place": "asked for", "to": fields.get("to"), "why": why}
    names = ("from", "step", "steps_permille", "share_permille", "began_ms", "since_ms", "looked_ms", "hold_ends_ms")
    return {**said, **dict.fromkeys((*names, "verdict", "figures", "limits", "before")), "versions": []}


def _plan(state: State, fields: Mapping[str, str]) -> Plan | None:
    """The plan, as far as this rollout has one."""
    if state.phase is Phase.REFUSED:
        return None
    before = tuple((name, int(share)) for name, share in fields_of(state.before).items() if share.isdecimal())
    names = tuple(dict.fromkeys((*dict(before), state.stable, state.canary)))
    try:
        plan = read_plan({**fields, "to": state.canary, "from": state.stable}, before, names)
    except ValueError:
        return None
    return plan if state.step < len(plan.steps) else None


def _place(state: State, plan: Plan | None) -> str:
    words = state.phase.replace("_", " ")
    if plan is None or state.phase not in GOING:
        return words
    return f"{place(plan, state)}, paused" if state.phase is Phase.PAUSED else place(plan, state)


def _share(state: State) -> int | None:
    share = fields_of(state.split).get(state.canary)
    return int(share) if share is not None and share.isdecimal() else None


def _limits(plan: Plan | None) -> dict[str, Any] | None:
    if plan is None:
        return None
    limits = plan.limits
    return {
        "hold_ms": plan.hold_ms,
        "max_error_rate": limits.max_error_ratio,
        "max_p95_ratio": limits.max_p95_ratio,
        "min_requests": limits.min_requests,
        "max_silence_ms": limits.max_silence_ms,
    }


def _version(cluster: str, evidence: Evidence) -> dict[str, Any]:
    figures: Figures = evidence.seen(cluster)
    requests, faults = judged(figures), figures.count(Ending.FAULT)
    p95 = figures.quantile_ms(0.95)
    return {
        "cluster": cluster,
        "requests": requests,
        "faults": faults,
        "error_rate": faults / requests if requests else None,
        "p95_ms": None if p95 is None else round(p95, 3),
        "client_errors": figures.count(Ending.CLIENT_ERROR),
        "back_pressure": figures.count(Ending.BACK_PRESSURE),
        "left": figures.count(Ending.LEFT),
    }


def print_list(console: Console, rollouts: Sequence[Mapping[str, Any]]) -> None:
    """One line a rollout."""
    table = new_table("model ", "to ", "rollout ", ">share ", "", "", "why")
    for one in rollouts:
        share = one["share_permille"]
        table.add_row(
            f"{escape(one['model'])} ",
            f"{escape(one['to'] or '-')} ",
            f"{one['place']} ",
            "- " if share is None else f"{percent(share)} ",
            bar(None if share is None else share / PERMILLE, 12),
            " ",
            escape(one["why"]),
        )
    console.print(table)


def print_one(console: Console, one: Mapping[str, Any]) -> None:
    """Where it is, what it waits for, and both versions since the step began."""
    print_list(console, [one])
    if one["since_ms"] is not None and one["looked_ms"] is not None:
        held = age(max(0, one["looked_ms"] - one["since_ms"]))
        ends = one["hold_ends_ms"]
        until = "" if ends is None else f", held until {time_text(ends)} at least"
        console.print(
            f"this step began at {time_text(one['since_ms'])}, {held} before the last look{until}", markup=False
        )
    if (limits := one["limits"]) is not None:
        console.print(
            f"limits: {limits['max_error_rate']:.2%} faults, {limits['max_p95_ratio']:g} times the p95,"
            f" from {limits['min_requests']} requests on, {duration_text(limits['max_silence_ms'])} of silence",
            markup=False,
        )
    if one["versions"]:
        _print_versions(console, one["versions"])
    if one["figures"]:
        console.print(f"{one['verdict'].replace('_', ' ')}: {one['figures']}", markup=False)


def _print_versions(console: Console, versions: Sequence[Mapping[str, Any]]) -> None:
    table = new_table("version ", ">requests ", ">faults ", ">p95 ", ">4xx ", ">back-pressure ", ">left")
    for version in versions:
        rate, p95 = version["error_rate"], version["p95_ms"]
        table.add_row(
            f"{escape(version['cluster'])} ",
            f"{version['requests']} ",
            "- " if rate is None else f"{rate:.2%} ",
            "- " if p95 is None else f"{p95:,.0f} ms ",
            f"{version['client_errors']} ",
            f"{version['back_pressure']} ",
            f"{version['left']}",
        )
    console.print(table)
