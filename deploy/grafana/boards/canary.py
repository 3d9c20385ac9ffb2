"""Versions of a model beside one another: who met which, and what became of it."""

from __future__ import annotations

from typing import Final

from deploy.grafana.board import Board, Choice, Look, Panel, Query, Row, Unit
from deploy.grafana.promql import largest, rate

HERE: Final = 'model=~"$model"'
SHARE: Final = "tidegate_ext_proc_split_permille"

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

BOARD: Final = Board(
    uid="tidegate-canary",
    title="Tidegate: canary",
    help="Versions of a model beside one another: who meets which, and what becomes of it.",
    choices=(Choice("model", SHARE),),
    rows=(Row("Who meets which", _MET),),
)
