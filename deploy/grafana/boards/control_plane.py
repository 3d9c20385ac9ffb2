"""The control plane: whether each service lives, leads, hears and is heard."""

from __future__ import annotations

from typing import Final

from deploy.grafana.board import Board, Look, Panel, Query, Row, Unit
from deploy.grafana.promql import largest, or_none, quantile, quantiles, rate, summed

_LIVES: Final = (
    Panel(
        "Services that answer",
        Unit.COUNT,
        "Metrics pages that Prometheus reaches, by job.",
        (Query('sum by (job) (up{job=~"tidegate-.+"})', "{{job}}"),),
        look=Look.STAT,
        width=10,
        height=5,
    ),
    Panel(
        "Controllers that lead",
        Unit.COUNT,
        "1 is good; 0: weights stand still.",
        (Query("sum(tidegate_controller_leads)", "leading"),),
        look=Look.STAT,
        width=3,
        height=5,
    ),
    Panel(
        "The lead was taken",
        Unit.MOMENT,
        "By the controller that has it.",
        (Query("max(tidegate_controller_lead_since_seconds) * 1000", "lead"),),
        look=Look.STAT,
        width=5,
        height=5,
    ),
    Panel(
        "Certificates end",
        Unit.MOMENT,
        "The first of each pair to end.",
        (Query("min by (pair) (tidegate_tls_certificate_not_after_seconds) * 1000 or vector(0)", "{{pair}}"),),
        look=Look.STAT,
        width=6,
        height=5,
        zero="nothing speaks TLS",
    ),
)

_REDIS: Final = (
    Panel(
        "Round trips to Redis, p95",
        Unit.SECONDS,
        "By service.",
        (Query(quantile(0.95, "tidegate_store_round_trip_seconds", "job"), "{{job}}"),),
        warn=0.05,
        bad=0.5,
    ),
    Panel(
        "Round trips",
        Unit.PER_SECOND,
        "By their first command, of all services.",
        (Query(rate("tidegate_store_round_trip_seconds_count", "command"), "{{command}}"),),
        look=Look.STACK,
    ),
    Panel(
        "Round trips that failed",
        Unit.PER_SECOND,
        "unavailable: Redis was not reached; refused: it takes no writes. 0 is good.",
        (Query(rate("tidegate_store_failures_total", "job, kind"), "{{job}} {{kind}}"),),
    ),
)

_ACTS: Final = (
    Panel(
        "Acts in force",
        Unit.COUNT,
        "What alerts and annotations changed, and will be undone.",
        (Query(largest("tidegate_actions_in_force", "kind"), "{{kind}}"),),
        look=Look.STACK,
    ),
    Panel(
        "Acts that began and ended",
        Unit.COUNT,
        "In the last hour.",
        (Query(or_none("sum by (kind, event) (increase(tidegate_actions_total[1h]))", "event"), "{{kind}} {{event}}"),),
    ),
    Panel(
        "Hooks called",
        Unit.PER_SECOND,
        "By how it ended; all but accepted changed nothing, and partly something.",
        (Query(or_none(rate("tidegate_hooks_requests_total", "hook, result"), "result"), "{{hook}} {{result}}"),),
        look=Look.STACK,
    ),
)

_XDS: Final = (
    Panel(
        "Envoys connected",
        Unit.COUNT,
        "Streams open at xds, and Envoys from which outcomes hears how requests ended.",
        (
            Query("sum(tidegate_xds_streams)", "configured"),
            Query("sum(tidegate_outcomes_envoys)", "heard"),
        ),
    ),
    Panel(
        "Pushes and verdicts",
        Unit.PER_SECOND,
        "Responses sent to Envoys, accepted and refused, a second.",
        (
            Query(rate("tidegate_xds_pushes_total", "type"), "push {{type}}"),
            Query(rate("tidegate_xds_acks_total", "type"), "ACK {{type}}"),
            Query(rate("tidegate_xds_nacks_total", "type"), "NACK {{type}}"),
        ),
    ),
    Panel(
        "Time to an ACK, p99",
        Unit.SECONDS,
        "From a response to its acceptance, by type.",
        (Query(quantile(0.99, "tidegate_xds_ack_seconds", "type"), "{{type}}"),),
        warn=1.0,
    ),
    Panel(
        "Oldest push without a verdict",
        Unit.SECONDS,
        "By Envoy; 0: none.",
        (Query(largest("tidegate_xds_unacked_age_seconds", "node"), "{{node}}"),),
        warn=1.0,
        bad=10.0,
    ),
    Panel(
        "Last push refused",
        Unit.FLAG,
        "Whether an Envoy has refused a push and accepted none of that type since.",
        (Query(largest("tidegate_xds_last_push_refused", "node, type"), "{{node}} {{type}}"),),
        look=Look.STAT,
        width=4,
        bad=1.0,
    ),
    Panel(
        "Snapshots that failed the check",
        Unit.PER_SECOND,
        "They were never sent; the last good one stays. 0 is good.",
        (Query("sum(rate(tidegate_xds_refused_snapshots_total[$__rate_interval]))", "refused"),),
    ),
    Panel(
        "No ext_proc answers",
        Unit.FLAG,
        "Envoy then reads models itself, and its weights decide.",
        (Query("max(tidegate_xds_picker_away)", "away"),),
        look=Look.STAT,
        width=4,
        bad=1.0,
    ),
)

_CONTROLLER: Final = (
    Panel(
        "Controller's tick",
        Unit.SECONDS,
        "One look at Redis, deciding and publishing.",
        quantiles("tidegate_controller_tick_seconds"),
        warn=0.125,
        bad=0.25,
    ),
    Panel(
        "Decisions written",
        Unit.PER_SECOND,
        "Clusters whose weights changed enough to be told.",
        (Query("sum(rate(tidegate_controller_decisions_written_total[$__rate_interval]))", "decisions"),),
    ),
    Panel(
        "What went wrong",
        Unit.PER_SECOND,
        "Ticks that Redis did not take, that took too long, duties that broke off, tasks started again. 0 is good.",
        (
            Query("sum(rate(tidegate_controller_store_errors_total[$__rate_interval]))", "store errors"),
            Query("sum(rate(tidegate_controller_tick_overruns_total[$__rate_interval]))", "overruns"),
            Query("sum(rate(tidegate_controller_duty_faults_total[$__rate_interval])) or vector(0)", "duty faults"),
            Query("sum(rate(tidegate_task_restarts_total[$__rate_interval])) or vector(0)", "task restarts"),
        ),
    ),
)

_PICKER: Final = (
    Panel(
        "Decisions",
        Unit.REQUESTS_PER_SECOND,
        "Requests that ext_proc sent to a cluster, by who chose the replica.",
        (Query(rate("tidegate_ext_proc_decisions_total", "by"), "{{by}}"),),
        look=Look.STACK,
    ),
    Panel(
        "Time of a decision",
        Unit.SECONDS,
        "ext_proc's own work on a request, without the wait in the queue.",
        quantiles("tidegate_ext_proc_decision_seconds"),
    ),
    Panel(
        "Refusals",
        Unit.REQUESTS_PER_SECOND,
        "Requests that ext_proc answered itself, by reason.",
        (Query(rate("tidegate_ext_proc_refusals_total", "reason"), "{{reason}}"),),
        look=Look.STACK,
    ),
    Panel(
        "Streams of Envoys, and aborted ones",
        Unit.COUNT,
        "Requests that ext_proc is asked about at this moment; protocol faults and crashes. 0 of those is good.",
        (
            Query("sum(tidegate_ext_proc_open_streams)", "open"),
            Query(rate("tidegate_ext_proc_failures_total", "kind"), "{{kind}} a second"),
        ),
    ),
    Panel(
        "Picks told among ext_procs",
        Unit.PER_SECOND,
        "told, heard, dropped for want of Redis, late by more than a second.",
        (Query(rate("tidegate_ext_proc_shared_picks_total", "what"), "{{what}}"),),
    ),
)

_AGENTS: Final = (
    Panel(
        "Age of samples",
        Unit.SECONDS,
        "The newest sample of each engine, at its agent. Past 3 s it says nothing.",
        (Query(largest("tidegate_agent_sample_age_seconds", "endpoint"), "{{endpoint}}"),),
        warn=1.0,
        bad=3.0,
    ),
    Panel(
        "Time of a scrape",
        Unit.SECONDS,
        "To fetch and read an engine's page.",
        quantiles("tidegate_agent_scrape_seconds"),
    ),
    Panel(
        "Time since Redis took a tick",
        Unit.SECONDS,
        "By agent.",
        (Query(largest("tidegate_agent_unpublished_seconds", "instance"), "{{instance}}"),),
        warn=1.0,
        bad=3.0,
    ),
    Panel(
        "Time of Redis",
        Unit.SECONDS,
        "That it takes for one tick of an agent.",
        quantiles("tidegate_agent_publish_seconds"),
    ),
    Panel(
        "Engines watched",
        Unit.COUNT,
        "By who named them.",
        (Query(summed("tidegate_agent_engines", "source"), "{{source}}"),),
    ),
    Panel(
        "Lines that outcomes heard",
        Unit.PER_SECOND,
        "counted, ignored: pages of the gateway, unreadable. 0 of the last is good.",
        (Query(rate("tidegate_outcomes_entries_total", "kind"), "{{kind}}"),),
    ),
)

_ENVOY: Final = (
    Panel(
        "Requests under way at engines",
        Unit.COUNT,
        "By cluster, over all Envoys.",
        (
            Query(
                summed(
                    "envoy_cluster_upstream_rq_active", "envoy_cluster_name", 'envoy_cluster_name!~"tidegate_.+|xds"'
                ),
                "{{envoy_cluster_name}}",
            ),
        ),
        look=Look.STACK,
        width=6,
    ),
    Panel(
        "Clients",
        Unit.COUNT,
        "Connections and requests under way at the gateway, those that wait in ext_proc among them.",
        (
            Query('sum(envoy_http_downstream_cx_active{envoy_http_conn_manager_prefix="gateway"})', "connections"),
            Query('sum(envoy_http_downstream_rq_active{envoy_http_conn_manager_prefix="gateway"})', "requests"),
        ),
        width=6,
    ),
    Panel(
        "Memory",
        Unit.BYTES,
        "Of each Envoy. It holds whole bodies: gateway.max_request_bytes times requests bounds it.",
        (Query(largest("envoy_server_memory_physical_size", "instance"), "{{instance}}"),),
        width=6,
    ),
    Panel(
        "Lines of the access log",
        Unit.PER_SECOND,
        "Written, and dropped since outcomes does not take them. 0 of those is good.",
        (
            Query("sum(rate(envoy_access_logs_grpc_access_log_logs_written[$__rate_interval]))", "written"),
            Query(
                "sum(rate(envoy_access_logs_grpc_access_log_logs_dropped[$__rate_interval])) or vector(0)", "dropped"
            ),
        ),
        width=6,
    ),
)

BOARD: Final = Board(
    uid="tidegate-control-plane",
    title="Tidegate: control plane",
    help="Whether each service lives, hears and is heard.",
    choices=(),
    rows=(
        Row("Alive", _LIVES),
        Row("What Envoys are told", _XDS),
        Row("Envoys", _ENVOY),
        Row("Controller", _CONTROLLER),
        Row("Alerts that act", _ACTS),
        Row("Redis", _REDIS),
        Row("Picker", _PICKER),
        Row("Agents and outcomes", _AGENTS),
    ),
)
