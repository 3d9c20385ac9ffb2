"""One model: who asks for it, how that ends, and what was expected of it."""

from __future__ import annotations

from typing import Final

from deploy.grafana.board import Board, Choice, Look, Panel, Query, Row, Unit
from deploy.grafana.promql import largest, or_none, quantile, rate, ratio

HERE: Final = 'model=~"$model"'
REQUESTS: Final = "tidegate_outcomes_model_requests_total"
REFUSALS: Final = "tidegate_outcomes_refusals_total"

_ASKED: Final = (
    Panel(
        "Requests",
        Unit.REQUESTS_PER_SECOND,
        "By the model that was asked for, aliases resolved.",
        (Query(rate(REQUESTS, "model", HERE), "{{model}}"),),
        look=Look.STACK,
    ),
    Panel(
        "Requests by class",
        Unit.REQUESTS_PER_SECOND,
        "Classes of the file; `other` are those that it does not name.",
        (Query(rate(REQUESTS, "class", HERE), "{{class}}"),),
        look=Look.STACK,
    ),
    Panel(
        "How they ended",
        Unit.REQUESTS_PER_SECOND,
        "served, client_error, back_pressure, fault, left: the client went first; refused: no engine was asked.",
        (Query(rate(REQUESTS, "ending", HERE), "{{ending}}"),),
        look=Look.STACK,
    ),
    Panel(
        "Part that was served",
        Unit.RATIO,
        "Of all requests of the model.",
        (Query(ratio(rate(REQUESTS, "model", f'{HERE},ending="served"'), rate(REQUESTS, "model", HERE)), "{{model}}"),),
    ),
    Panel(
        "Refused, by reason",
        Unit.REQUESTS_PER_SECOND,
        "Answers without an engine: of ext_proc by its reason, `gateway` what Envoy refused by itself.",
        (Query(or_none(rate(REFUSALS, "reason", HERE), "reason"), "{{reason}}"),),
        look=Look.STACK,
    ),
    Panel(
        "Budget spent, last hour",
        Unit.TIMES,
        "Burn rate of each objective: 1 spends the budget exactly.",
        (
            Query(
                largest("tidegate_outcomes_slo_burn_ratio", "model, objective", f'{HERE},window="1h"'),
                "{{model}} {{objective}}",
            ),
        ),
        warn=6.0,
        bad=14.4,
    ),
)

_TOKENS: Final = (
    Panel(
        "Prompt tokens",
        Unit.PER_SECOND,
        "What the engines of each cluster counted, beside what was estimated of what this gateway sent there.",
        (
            Query(rate("tidegate_ext_proc_counted_prompt_tokens_total", "cluster"), "{{cluster}} counted"),
            Query(rate("tidegate_ext_proc_estimated_prompt_tokens_total", "cluster"), "{{cluster}} estimated"),
        ),
    ),
    Panel(
        "Output tokens",
        Unit.PER_SECOND,
        "What the engines of each cluster generated, beside what was expected of what this gateway sent there.",
        (
            Query(rate("tidegate_ext_proc_counted_output_tokens_total", "cluster"), "{{cluster}} counted"),
            Query(rate("tidegate_ext_proc_expected_output_tokens_total", "cluster"), "{{cluster}} expected"),
        ),
    ),
    Panel(
        "Time to the first token, as expected",
        Unit.SECONDS,
        "Of the replica that was picked, by cluster: p95.",
        (Query(quantile(0.95, "tidegate_ext_proc_expected_first_token_seconds", "cluster"), "{{cluster}}"),),
    ),
    Panel(
        "Output of one sequence, as expected",
        Unit.COUNT,
        "Tokens, by cluster: the longest class.",
        (Query(largest("tidegate_ext_proc_output_tokens", "cluster"), "{{cluster}}"),),
    ),
    Panel(
        "Characters a token",
        Unit.COUNT,
        "What estimates of prompts go by, learned from the engines' counts.",
        (Query(largest("tidegate_ext_proc_characters_per_token", "cluster"), "{{cluster}}"),),
    ),
)

BOARD: Final = Board(
    uid="tidegate-model",
    title="Tidegate: model",
    help="Who asks for a model, how that ends, and what was expected of it.",
    choices=(Choice("model", REQUESTS),),
    rows=(Row("Asked for", _ASKED), Row("Tokens", _TOKENS)),
)
