"""Versions of a model beside one another: who met which, and what became of it."""

from __future__ import annotations

from typing import Final

from deploy.grafana.board import Board, Choice, Look, Panel, Query, Row, Unit
from deploy.grafana.promql import largest, or_none, quantile, rate, ratio

HERE: Final = 'model=~"$model"'
SHARE: Final = "tidegate_ext_proc_split_permille"
ENDED: Final = "tidegate_outcomes_version_requests_total"

_MET: Final = (
    Panel(
        "Shares in force",
        Unit.PERMILLE,
        "Parts per thousand of the model's users.",
        (Query(largest(SHARE, "model, version", HERE), "{{model}} {{version}}"),),
        look=Look.STACK,
    ),
    Panel(
        "Requests of a version",
        Unit.REQUESTS_PER_SECOND,
        "Sent to the version by the split or an override.",
        (Query(rate("tidegate_ext_proc_split_requests_total", "model, version", HERE), "{{model}} {{version}}"),),
        look=Look.STACK,
    ),
    Panel(
        "Meant for a version that served nobody",
        Unit.REQUESTS_PER_SECOND,
        "They went to the others, by their shares. 0 is good.",
        (Query(rate("tidegate_ext_proc_split_fallbacks_total", "model, version", HERE), "{{model}} {{version}}"),),
    ),
)

_BECAME: Final = (
    Panel(
        "Faults of what engines answered",
        Unit.RATIO,
        "Of each version's own requests: what a rollout judges first.",
        (
            Query(
                ratio(
                    rate(ENDED, "model, version", f'{HERE},ending="fault"'),
                    rate(ENDED, "model, version", f'{HERE},ending=~"served|client_error|back_pressure|fault"'),
                ),
                "{{model}} {{version}}",
            ),
        ),
        warn=0.02,
        bad=0.1,
    ),
    Panel(
        "How they ended",
        Unit.REQUESTS_PER_SECOND,
        "Of all models shown, by version.",
        (Query(rate(ENDED, "version, ending", HERE), "{{version}} {{ending}}"),),
        look=Look.STACK,
    ),
    Panel(
        "Time to the last byte, p95",
        Unit.SECONDS,
        "Of the clusters that are versions, with all that they serve.",
        (
            Query(
                quantile(0.95, "tidegate_outcomes_last_byte_seconds", "cluster", 'cluster=~"$version"'), "{{cluster}}"
            ),
        ),
    ),
)

_ROLLOUTS: Final = (
    Panel(
        "Phase of a rollout",
        Unit.COUNT,
        "running, paused, done, rolled_back, aborted or refused; none where there is no rollout.",
        (
            Query(
                or_none(f"max by (model, phase) (tidegate_rollout_phase{{{HERE}}}) == 1", "phase"),
                "{{model}} {{phase}}",
            ),
        ),
        look=Look.STAT,
    ),
    Panel(
        "Share that a rollout gave its canary",
        Unit.PERMILLE,
        "Step by step.",
        (
            Query(
                or_none(largest("tidegate_rollout_permille", "model, version", HERE), "version"),
                "{{model}} {{version}}",
            ),
        ),
    ),
    Panel(
        "What rollouts came to",
        Unit.COUNT,
        "Since the controllers started: steps, pauses and ends.",
        (Query("sum by (turn) (tidegate_rollout_turns_total)", "{{turn}}"),),
        look=Look.STAT,
    ),
)

BOARD: Final = Board(
    uid="tidegate-canary",
    title="Tidegate: canary",
    help="Versions of a model beside one another: who meets which, and what becomes of it.",
    choices=(Choice("model", SHARE), Choice("version", SHARE, everything=None)),
    rows=(Row("Who meets which", _MET), Row("What becomes of it", _BECAME), Row("Rollouts", _ROLLOUTS)),
)
