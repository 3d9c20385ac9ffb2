"""The fleet: what clients feel and what waits, by cluster; and how replicas stand."""

from __future__ import annotations

from typing import Final

from deploy.grafana.board import Board, Choice, Look, Panel, Query, Row, Unit
from deploy.grafana.promql import largest, of_the_minute, or_none, quantile, rate, ratio, summed

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

_REPLICAS: Final = (
    Panel(
        "Replicas by state",
        Unit.COUNT,
        "As the controller that leads sees them; unknown: without a fresh sample.",
        (Query(summed("tidegate_replicas", "status", HERE), "{{status}}"),),
        look=Look.STACK,
    ),
    Panel(
        "Replicas wanted and ready",
        Unit.COUNT,
        "What load, alerts and operators ask for, and what takes traffic.",
        (
            Query(largest("tidegate_scale_desired_replicas", "cluster", HERE), "{{cluster}} wanted"),
            Query(largest("tidegate_scale_ready_replicas", "cluster", HERE), "{{cluster}} ready"),
        ),
    ),
    Panel(
        "Targets changed",
        Unit.COUNT,
        "In the last hour, by reason.",
        (
            Query(
                or_none(f"sum by (cluster, reason) (increase(tidegate_replicas_scaled_total{{{HERE}}}[1h]))", "reason"),
                "{{cluster}} {{reason}}",
            ),
        ),
    ),
    Panel(
        "Weight",
        Unit.PERMILLE,
        "What Envoy gets of 1000; 0 takes nothing new.",
        (Query(largest("tidegate_replica_weight_permille", "cluster, replica", HERE), REPLICA),),
        width=12,
    ),
    Panel(
        "Load",
        Unit.RATIO,
        "How full a replica is, all parts together; its weight follows.",
        (Query(largest("tidegate_replica_load_ratio", "cluster, replica", HERE), REPLICA),),
        width=12,
        warn=0.85,
        bad=1.0,
    ),
    Panel(
        "Parts of the load",
        Unit.RATIO,
        "Latency, memory and request mix, by cluster: the fullest replica of each.",
        (Query(largest("tidegate_replica_load_part_ratio", "cluster, part", HERE), "{{cluster}} {{part}}"),),
    ),
    Panel(
        "Requests in engines",
        Unit.COUNT,
        "Running and waiting there, by replica.",
        (
            Query(largest("tidegate_replica_running_requests", "cluster, replica", HERE), f"{REPLICA} running"),
            Query(largest("tidegate_replica_waiting_requests", "cluster, replica", HERE), f"{REPLICA} waiting"),
        ),
    ),
    Panel(
        "KV cache in use",
        Unit.RATIO,
        "Of each engine. Near 1, requests are held in the gateway or preempted in the engine.",
        (Query(largest("tidegate_replica_kv_used_ratio", "cluster, replica", HERE), REPLICA),),
        warn=0.85,
        bad=0.95,
    ),
    Panel(
        "Picks",
        Unit.REQUESTS_PER_SECOND,
        "Requests that ext_proc sent to each replica.",
        (Query(rate("tidegate_ext_proc_picks_total", "cluster, replica", HERE), REPLICA),),
        look=Look.STACK,
    ),
    Panel(
        "Sent and not yet sampled",
        Unit.COUNT,
        "What ext_proc adds to what samples say, by replica.",
        (Query(summed("tidegate_ext_proc_pending_requests", "cluster, replica", HERE), REPLICA),),
    ),
    Panel(
        "Age of samples at ext_proc",
        Unit.SECONDS,
        "The oldest of each cluster. Past 3 s a sample says nothing.",
        (Query(largest("tidegate_ext_proc_sample_age_seconds", "cluster", HERE), "{{cluster}}"),),
        warn=1.0,
        bad=3.0,
    ),
)

BOARD: Final = Board(
    uid="tidegate-fleet",
    title="Tidegate: fleet",
    help="What clients feel, what waits, and how the replicas stand, by cluster.",
    choices=(Choice("cluster", REQUESTS),),
    rows=(Row("What clients feel", _FELT), Row("What waits", _WAITS), Row("Replicas", _REPLICAS)),
)
