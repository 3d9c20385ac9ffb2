"""The fleet: what clients feel and what waits, by cluster; and how replicas stand."""

from __future__ import annotations

from typing import Final

from deploy.grafana.board import Board, Choice, Look, Panel, Query, Row, Unit
from deploy.grafana.promql import of_the_minute, quantile, rate, ratio, summed

HERE: Final = 'cluster=~"$cluster"'
REQUESTS: Final = "tidegate_outcomes_requests_total"
REPLICA: Final = "{{cluster}} {{replica}}"

_FELT: Final = (
    Panel(
        "Requests",
        Unit.REQUESTS_PER_SECOND,
        "Requests that ended, refused ones among them.",
        (Query(rate(REQUESTS, "cluster", HERE), "{{cluster}}"),),
        look=Look.STACK,
    ),
    Panel(
        "Faults of what engines answered",
        Unit.RATIO,
        "5xx of engines, broken connections and silence. Above 10 % of 5 minutes retries are cut.",
        (
            Query(
                ratio(
                    rate(REQUESTS, "cluster", f'{HERE},ending="fault"'),
                    rate(REQUESTS, "cluster", f'{HERE},ending=~"served|client_error|back_pressure|fault"'),
                ),
                "{{cluster}}",
            ),
        ),
        warn=0.02,
        bad=0.1,
    ),
    Panel(
        "How requests ended",
        Unit.REQUESTS_PER_SECOND,
        "served, client_error, back_pressure, fault, left: the client went first; refused: no engine was asked.",
        (Query(rate(REQUESTS, "ending", HERE), "{{ending}}"),),
        look=Look.STACK,
    ),
    Panel(
        "Time to the first byte",
        Unit.SECONDS,
        "Of the last minute, as Envoy saw it, the wait in the gateway included.",
        of_the_minute("tidegate_outcomes_ttfb_seconds", HERE),
        width=12,
    ),
    Panel(
        "Time to the last byte",
        Unit.SECONDS,
        "Of the last minute, as Envoy saw it, the wait in the gateway included.",
        of_the_minute("tidegate_outcomes_total_seconds", HERE),
        width=12,
    ),
)

_WAITS: Final = (
    Panel(
        "Requests that wait",
        Unit.COUNT,
        "In the queues of all ext_procs.",
        (Query(summed("tidegate_queue_requests", "cluster, priority", HERE), "{{cluster}} {{priority}}"),),
        look=Look.STACK,
    ),
    Panel(
        "Wait in the gateway, p95",
        Unit.SECONDS,
        "From arrival to a place, of requests that were placed.",
        (Query(quantile(0.95, "tidegate_queue_wait_seconds", "cluster", HERE), "{{cluster}}"),),
        warn=0.5,
        bad=1.0,
    ),
    Panel(
        "What became of arrivals",
        Unit.REQUESTS_PER_SECOND,
        "placed: had or found room; eased: Envoy's weights decided. The others were refused, or left.",
        (Query(rate("tidegate_queue_outcomes_total", "outcome", HERE), "{{outcome}}"),),
        look=Look.STACK,
    ),
)

_REPLICAS: Final = ()

BOARD: Final = Board(
    uid="tidegate-fleet",
    title="Tidegate: fleet",
    help="What clients feel, what waits, and how the replicas stand, by cluster.",
    choices=(Choice("cluster", REQUESTS),),
    rows=(Row("What clients feel", _FELT), Row("What waits", _WAITS), Row("Replicas", _REPLICAS)),
)
