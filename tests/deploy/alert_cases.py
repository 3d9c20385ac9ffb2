"""When each alert fires and when it does not, as promtool's unit tests read it.

Values are promtool's: `0+5x20` is 0, 5, 10 … at 21 points, one a step.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

STEP, LONG_STEP = "15s", "4m"


@dataclass(frozen=True)
class Case:
    """Series, and what the alert says of them at `at`: labels and the summary of each that fires."""

    alert: str
    name: str
    series: dict[str, str]
    at: str = "10m"
    fires: tuple[tuple[dict[str, str], str], ...] = ()
    step: str = STEP

    def unit(self, rule: dict[str, Any]) -> dict[str, Any]:
        """One test of promtool."""
        expected = [
            {"exp_labels": {**rule["labels"], **labels}, "exp_annotations": {**rule["annotations"], "summary": summary}}
            for labels, summary in self.fires
        ]
        ask = {"eval_time": self.at, "alertname": self.alert, "exp_alerts": expected}
        series = [{"series": name, "values": values} for name, values in self.series.items()]
        return {"name": self.name, "interval": self.step, "input_series": series, "alert_rule_test": [ask]}


def burn(short: str, long: str) -> dict[str, str]:
    where = 'model="phi-3",objective="error_rate"'
    of = f"tidegate_outcomes_slo_burn_ratio{{{where},window="
    return {f'{of}"5m"}}': short, f'{of}"1h"}}': long}


def ended(**by_ending: str) -> dict[str, str]:
    """Requests of two replicas of one cluster, by ending; both the same."""
    return {
        f'tidegate_outcomes_requests_total{{cluster="phi-3",replica="{replica}",ending="{ending}"}}': values
        for ending, values in by_ending.items()
        for replica in ("a:1", "b:1")
    }


def waits(fast: str, slow: str) -> dict[str, str]:
    """A histogram of waits: of `slow` requests all wait 1 to 2.5 s, of `fast` none."""
    of = 'tidegate_queue_wait_seconds_bucket{cluster="phi-3",priority="normal",le='
    return {f'{of}"1.0"}}': fast, f'{of}"2.5"}}': slow, f'{of}"+Inf"}}': slow}


SLO = {"model": "phi-3", "objective": "error_rate"}
PHI = {"cluster": "phi-3"}

TRAFFIC = (
    Case(
        "TidegateSloBurnFast",
        "both windows burn at 20",
        burn("20x40", "20x40"),
        fires=((SLO, "phi-3 spends its budget of error_rate 20.0 times too fast"),),
    ),
    Case("TidegateSloBurnFast", "a short burst that the hour does not feel", burn("50x40", "3x40")),
    Case("TidegateSloBurnFast", "an hour that was bad and is over", burn("0x40", "20x40")),
    Case(
        "TidegateSloBurnSlow",
        "7 for hours",
        burn("7x90", "7x90"),
        at="6h",
        step=LONG_STEP,
        fires=((SLO, "phi-3 spends its budget of error_rate 7.0 times too fast"),),
    ),
    Case(
        "TidegateSloBurnSlow", "one bad hour after five good ones", burn("0x90", "0x75 7x15"), at="6h", step=LONG_STEP
    ),
    Case(
        "TidegateQueueLatencyHigh",
        "all wait more than a second",
        waits("0x40", "0+10x40"),
        fires=((PHI, "Requests wait for phi-3: p95 2.425s"),),
    ),
    Case("TidegateQueueLatencyHigh", "nobody waits a second", waits("0+10x40", "0+10x40")),
    Case("TidegateQueueLatencyHigh", "nobody comes", waits("5x40", "5x40")),
    Case("TidegateQueueLatencyHigh", "less than a minute of it", waits("0x40", "0x37 10 20 30"), at="9m45s"),
    Case(
        "TidegateQueueNearlyFull",
        "90 of 100 places of two ext_procs",
        {
            'tidegate_queue_requests{cluster="phi-3",instance="a"}': "80x40",
            'tidegate_queue_requests{cluster="phi-3",instance="b"}': "100x40",
            'tidegate_queue_most_requests{cluster="phi-3",instance="a"}': "100x40",
            'tidegate_queue_most_requests{cluster="phi-3",instance="b"}': "100x40",
        },
        fires=((PHI, "The queue of phi-3 is 90% full"),),
    ),
    Case(
        "TidegateQueueNearlyFull",
        "half full, and a cluster where nothing may wait",
        {
            'tidegate_queue_requests{cluster="phi-3"}': "50x40",
            'tidegate_queue_most_requests{cluster="phi-3"}': "100x40",
            'tidegate_queue_requests{cluster="none"}': "0x40",
            'tidegate_queue_most_requests{cluster="none"}': "0x40",
        },
    ),
    Case(
        "TidegateFailureRateHigh",
        "a fifth of the answers are faults",
        ended(served="0+8x40", fault="0+2x40"),
        fires=((PHI, "20% of the answers of phi-3 are faults"),),
    ),
    Case("TidegateFailureRateHigh", "a twentieth of them", ended(served="0+19x40", fault="0+1x40")),
    Case("TidegateFailureRateHigh", "one fault of three requests", ended(served="0x30 1x10", fault="0x30 1x10")),
    Case(
        "TidegateFailureRateHigh",
        "clients that leave and refusals count for nothing",
        ended(left="0+9x40", refused="0+9x40"),
    ),
    Case(
        "TidegateNoRoom",
        "a tenth is refused for want of room",
        {
            'tidegate_outcomes_refusals_total{reason="saturated",model="phi-3"}': "0+1x40",
            'tidegate_outcomes_model_requests_total{model="phi-3",class="default",ending="served"}': "0+9x40",
            'tidegate_outcomes_model_requests_total{model="phi-3",class="default",ending="refused"}': "0+1x40",
        },
        fires=(({"model": "phi-3"}, "10% of the requests for phi-3 are refused for want of room"),),
    ),
    Case(
        "TidegateNoRoom",
        "as many are refused for the client's own doing",
        {
            'tidegate_outcomes_refusals_total{reason="unknown-model",model="phi-3"}': "0+5x40",
            'tidegate_outcomes_model_requests_total{model="phi-3",class="default",ending="refused"}': "0+5x40",
        },
    ),
)

ENGINE = 'endpoint="10.0.0.5:8000"'
AGENT = {"job": "tidegate-agent", "instance": "gpu-1:9100"}
XDS = {"job": "tidegate-xds", "instance": "xds:9100"}
OF_AGENT, OF_XDS = (",".join(f'{name}="{value}"' for name, value in where.items()) for where in (AGENT, XDS))


def scale(desired: str, ready: str) -> dict[str, str]:
    """The leader's figures, and those of an instance that led before, which ended."""
    return {
        'tidegate_scale_desired_replicas{cluster="phi-3",instance="a"}': desired,
        'tidegate_scale_ready_replicas{cluster="phi-3",instance="a"}': ready,
    }


FLEET = (
    Case("TidegateNoReplicas", "all gone", scale("2x40", "0x40"), fires=((PHI, "No replica of phi-3 takes traffic"),)),
    Case("TidegateNoReplicas", "one is left", scale("2x40", "1x40")),
    Case("TidegateNoReplicas", "one is started again within half a minute", scale("1x40", "1x38 0 0"), at="9m45s"),
    Case(
        "TidegateReplicasMissing",
        "two asked for, one there, for long",
        scale("2x100", "1x100"),
        at="20m",
        fires=((PHI, "phi-3 lacks 1 of the replicas that it should have"),),
    ),
    Case("TidegateReplicasMissing", "it takes ten minutes to load one", scale("2x100", "1x40 2x60"), at="20m"),
    Case("TidegateReplicasMissing", "more than asked for", scale("1x100", "2x100"), at="20m"),
    Case(
        "TidegateSamplesStale",
        "an agent died",
        {'tidegate_scale_unknown_replicas{cluster="phi-3"}': "2x40"},
        fires=((PHI, "Nothing is heard of 2 replicas of phi-3"),),
    ),
    Case(
        "TidegateSamplesStale",
        "it is started again at once",
        {'tidegate_scale_unknown_replicas{cluster="phi-3"}': "0x38 2 2"},
        at="9m45s",
    ),
    Case(
        "TidegateKvPressure",
        "full for minutes",
        {'tidegate_replica_kv_used_ratio{cluster="phi-3",replica="a:1"}': "0.98x40"},
        fires=(({"cluster": "phi-3", "replica": "a:1"}, "98% of the KV cache of a:1 in phi-3 is in use"),),
    ),
    Case(
        "TidegateKvPressure", "well used", {'tidegate_replica_kv_used_ratio{cluster="phi-3",replica="a:1"}': "0.9x40"}
    ),
    Case(
        "TidegateEngineUnreadable",
        "half a minute without a page",
        {f"tidegate_agent_sample_age_seconds{{{ENGINE},{OF_AGENT}}}": "30x40"},
        fires=(({"endpoint": "10.0.0.5:8000"}, "The agent has read nothing of engine 10.0.0.5:8000 for 30s"),),
    ),
    Case(
        "TidegateEngineUnreadable",
        "an engine that is slow",
        {f"tidegate_agent_sample_age_seconds{{{ENGINE},{OF_AGENT}}}": "4x40"},
    ),
    Case(
        "TidegateAgentSilent",
        "Redis takes nothing",
        {f"tidegate_agent_unpublished_seconds{{{OF_AGENT}}}": "20x40"},
        fires=((AGENT, "The agent gpu-1:9100 told Redis nothing for 20s"),),
    ),
    Case("TidegateAgentSilent", "every tick is taken", {f"tidegate_agent_unpublished_seconds{{{OF_AGENT}}}": "0.1x40"}),
)


def ends_in(seconds: int) -> dict[str, str]:
    """A certificate that ends so long after the tenth minute, as promtool's clock begins at 0."""
    return {f'tidegate_tls_certificate_not_after_seconds{{pair="server",{OF_XDS}}}': f"{600 + seconds}x240"}


DAY = 86400
PAIR = {"pair": "server", **XDS}

CONTROL_PLANE = (
    Case(
        "TidegateServiceDown",
        "xds is gone",
        {f"up{{{OF_XDS}}}": "0x40", 'up{job="else",instance="x:1"}': "0x40"},
        fires=((XDS, "tidegate-xds at xds:9100 does not answer"),),
    ),
    Case("TidegateServiceDown", "it is there, and one scrape failed", {f"up{{{OF_XDS}}}": "1x39 0"}),
    Case(
        "TidegateNoLeader",
        "two that wait for a lead",
        {f"tidegate_controller_leads{{{OF_XDS}}}": "0x40", 'tidegate_controller_leads{instance="b"}': "0x40"},
        fires=(({}, "No controller leads"),),
    ),
    Case("TidegateNoLeader", "nobody tells", {f"up{{{OF_AGENT}}}": "1x40"}, fires=(({}, "No controller leads"),)),
    Case(
        "TidegateNoLeader",
        "one leads, one waits",
        {f"tidegate_controller_leads{{{OF_XDS}}}": "1x40", 'tidegate_controller_leads{instance="b"}': "0x40"},
    ),
    Case(
        "TidegateHooksRefuse",
        "a wrong token",
        {'tidegate_hooks_requests_total{hook="alertmanager",result="unauthorized"}': "0x30 1x10"},
        fires=(({"hook": "alertmanager"}, "Requests to the hook alertmanager are refused"),),
    ),
    Case(
        "TidegateHooksRefuse",
        "alerts without a rule",
        {'tidegate_hooks_requests_total{hook="alertmanager",result="unknown"}': "0+1x40"},
    ),
    Case(
        "TidegateRedisLost",
        "ten failures a minute",
        {f'tidegate_store_failures_total{{kind="unavailable",{OF_XDS}}}': "0+5x40"},
        fires=((XDS, "tidegate-xds at xds:9100 does not reach Redis"),),
    ),
    Case(
        "TidegateRedisLost",
        "a connection that broke once, and writes that Redis refuses",
        {
            f'tidegate_store_failures_total{{kind="unavailable",{OF_XDS}}}': "0x39 1",
            f'tidegate_store_failures_total{{kind="refused",{OF_XDS}}}': "0+5x40",
        },
    ),
    Case(
        "TidegateXdsRefused",
        "weights are refused",
        {'tidegate_xds_last_push_refused{node="envoy-1",type="eds"}': "1x40"},
        fires=(({"node": "envoy-1", "type": "eds"}, "Envoy envoy-1 refuses what it is told of eds"),),
    ),
    Case(
        "TidegateXdsRefused", "all is accepted", {'tidegate_xds_last_push_refused{node="envoy-1",type="eds"}': "0x40"}
    ),
    Case(
        "TidegateXdsUnanswered",
        "nothing for a minute",
        {'tidegate_xds_unacked_age_seconds{node="envoy-1",type="cds"}': "60x40"},
        fires=(({"node": "envoy-1", "type": "cds"}, "Envoy envoy-1 says nothing to a push of cds for 1m 0s"),),
    ),
    Case(
        "TidegateXdsUnanswered", "two seconds", {'tidegate_xds_unacked_age_seconds{node="envoy-1",type="cds"}': "2x40"}
    ),
    Case(
        "TidegateSnapshotRefused",
        "one",
        {f"tidegate_xds_refused_snapshots_total{{{OF_XDS}}}": "0x30 1x10"},
        fires=((XDS, "xds at xds:9100 made a snapshot that contradicts itself"),),
    ),
    Case("TidegateSnapshotRefused", "one, an hour ago", {f"tidegate_xds_refused_snapshots_total{{{OF_XDS}}}": "1x40"}),
    Case(
        "TidegatePickerAway",
        "none answers",
        {f"tidegate_xds_picker_away{{{OF_XDS}}}": "1x40"},
        fires=(({}, "No ext_proc answers"),),
    ),
    Case("TidegatePickerAway", "one answers", {f"tidegate_xds_picker_away{{{OF_XDS}}}": "0x40"}),
    Case(
        "TidegateOutcomesUnheard",
        "requests, and no lines",
        {
            'tidegate_ext_proc_decisions_total{cluster="phi-3",by="pick"}': "0+5x40",
            'tidegate_outcomes_entries_total{kind="counted"}': "7x40",
            'tidegate_outcomes_entries_total{kind="ignored"}': "0+1x40",
        },
        fires=(({}, "Requests are sent to engines, and no Envoy tells how they end"),),
    ),
    Case(
        "TidegateOutcomesUnheard",
        "as many lines as requests",
        {
            'tidegate_ext_proc_decisions_total{cluster="phi-3",by="pick"}': "0+5x40",
            'tidegate_outcomes_entries_total{kind="counted"}': "0+5x40",
        },
    ),
    Case(
        "TidegateOutcomesUnheard",
        "nobody asks",
        {
            'tidegate_ext_proc_decisions_total{cluster="phi-3",by="pick"}': "9x40",
            'tidegate_outcomes_entries_total{kind="counted"}': "9x40",
        },
    ),
    Case(
        "TidegateTaskRestarts",
        "a task dies each minute",
        {f'tidegate_task_restarts_total{{task="controller",{OF_XDS}}}': "0+0.25x40"},
        fires=(({"task": "controller", **XDS}, "Task controller of tidegate-xds at xds:9100 dies again and again"),),
    ),
    Case(
        "TidegateTaskRestarts",
        "it died once",
        {f'tidegate_task_restarts_total{{task="controller",{OF_XDS}}}': "0x20 1x20"},
    ),
    Case(
        "TidegateDutyFaults",
        "a duty breaks off each minute",
        {f'tidegate_controller_duty_faults_total{{duty="rollouts",{OF_XDS}}}': "0+0.25x40"},
        fires=(({"duty": "rollouts"}, "The controller's duty rollouts breaks off again and again"),),
    ),
    Case(
        "TidegateDutyFaults",
        "it broke off once",
        {f'tidegate_controller_duty_faults_total{{duty="rollouts",{OF_XDS}}}': "0x20 1x20"},
    ),
    Case(
        "TidegateCertificateEndsSoon",
        "in ten days",
        ends_in(10 * DAY),
        fires=((PAIR, "Certificate server of tidegate-xds at xds:9100 ends in 10d 0h 0m 0s"),),
    ),
    Case("TidegateCertificateEndsSoon", "in three weeks", ends_in(21 * DAY)),
    Case(
        "TidegateCertificateEnds",
        "in a day",
        ends_in(DAY),
        fires=((PAIR, "Certificate server of tidegate-xds at xds:9100 ends in 1d 0h 0m 0s"),),
    ),
    Case("TidegateCertificateEnds", "in ten days", ends_in(10 * DAY)),
    Case(
        "TidegateCertificateRefused",
        "new files that do not fit",
        {f'tidegate_tls_reload_failures_total{{pair="server",{OF_XDS}}}': "0x30 1x10"},
        fires=((PAIR, "New files of certificate server of tidegate-xds at xds:9100 were not taken"),),
    ),
    Case(
        "TidegateCertificateRefused",
        "all were taken",
        {f'tidegate_tls_reload_failures_total{{pair="server",{OF_XDS}}}': "0x40"},
    ),
    Case(
        "TidegateRolledBack",
        "a canary failed",
        {
            'tidegate_rollout_phase{model="phi-3",phase="running"}': "1x20 0x20",
            'tidegate_rollout_phase{model="phi-3",phase="rolled_back"}': "0x20 1x20",
        },
        fires=(({"model": "phi-3"}, "The rollout of phi-3 was rolled back"),),
    ),
    Case(
        "TidegateRolledBack",
        "it goes on",
        {
            'tidegate_rollout_phase{model="phi-3",phase="running"}': "1x40",
            'tidegate_rollout_phase{model="phi-3",phase="rolled_back"}': "0x40",
        },
    ),
)

CASES = (*TRAFFIC, *FLEET, *CONTROL_PLANE)
