"""Objectives: how fast their budgets are spent, and what spends them."""

from __future__ import annotations

from typing import Final

from deploy.grafana.board import Board, Choice, Look, Panel, Query, Row, Unit
from deploy.grafana.promql import largest, or_none, rate, ratio

HERE: Final = 'model=~"$model"'
BURN: Final = "tidegate_outcomes_slo_burn_ratio"
REQUESTS: Final = "tidegate_outcomes_model_requests_total"
OBJECTIVE: Final = "{{model}} {{objective}}"
WANT_OF_ROOM: Final = 'reason=~"saturated|held|queue-timeout|no-endpoint"'


def _burn(window: str) -> Query:
    return Query(largest(BURN, "model, objective", f'{HERE},window="{window}"'), OBJECTIVE)


_BUDGETS: Final = (
    Panel(
        "Objectives that burn",
        Unit.FLAG,
        "Yes where both windows burn at 14.4 and more: 2 % of a budget of 30 days in an hour.",
        (Query(largest("tidegate_outcomes_slo_burning", "model, objective", HERE), OBJECTIVE),),
        look=Look.STAT,
        width=24,
        height=5,
        bad=1.0,
    ),
    Panel(
        "Burn rate, last 5 minutes",
        Unit.TIMES,
        "1 spends the budget exactly. It goes up first, and comes down first.",
        (_burn("5m"),),
        width=12,
        warn=6.0,
        bad=14.4,
    ),
    Panel(
        "Burn rate, last hour",
        Unit.TIMES,
        "1 spends the budget exactly. It says that a burn matters.",
        (_burn("1h"),),
        width=12,
        warn=6.0,
        bad=14.4,
    ),
)

_SPENT: Final = (
    Panel(
        "Faults of what engines answered",
        Unit.RATIO,
        "What error_rate and availability count as bad.",
        (
            Query(
                ratio(
                    rate(REQUESTS, "model", f'{HERE},ending="fault"'),
                    rate(REQUESTS, "model", f'{HERE},ending=~"served|client_error|back_pressure|fault"'),
                ),
                "{{model}}",
            ),
        ),
        width=12,
    ),
    Panel(
        "Refused for want of room",
        Unit.REQUESTS_PER_SECOND,
        "What availability counts as bad beside faults and back-pressure.",
        (
            Query(
                or_none(rate("tidegate_outcomes_refusals_total", "model, reason", f"{HERE},{WANT_OF_ROOM}"), "reason"),
                "{{model}} {{reason}}",
            ),
        ),
        look=Look.STACK,
        width=12,
    ),
)

BOARD: Final = Board(
    uid="tidegate-slo",
    title="Tidegate: objectives",
    help="How fast the budgets of `slos` are spent, and what spends them.",
    choices=(Choice("model", BURN),),
    rows=(Row("Budgets", _BUDGETS), Row("What spends them", _SPENT)),
)
