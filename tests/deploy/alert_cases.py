"""When each alert fires and when it does not, as promtool's unit tests read it.

Values are promtool's: `0+5x20` is 0, 5, 10 … at 21 points, one each 15 s; `_` is no sample.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

STEP = "15s"


@dataclass(frozen=True)
class Case:
    """Series, and what the alert says of them at `at`: labels and the summary of each that fires."""

    alert: str
    name: str
    series: dict[str, str]
    at: str = "10m"
    fires: tuple[tuple[dict[str, str], str], ...] = field(default_factory=tuple)

    @property
    def id(self) -> str:
        return f"{self.alert}: {self.name}"

    def unit(self, rule: dict[str, Any]) -> dict[str, Any]:
        """One test of promtool."""
        expected = [
            {"exp_labels": {**rule["labels"], **labels}, "exp_annotations": {**rule["annotations"], "summary": summary}}
            for labels, summary in self.fires
        ]
        ask = {"eval_time": self.at, "alertname": self.alert, "exp_alerts": expected}
        series = [{"series": name, "values": values} for name, values in self.series.items()]
        return {"name": self.name, "interval": STEP, "input_series": series, "alert_rule_test": [ask]}


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
        burn("7x1440", "7x1440"),
        at="6h",
        fires=((SLO, "phi-3 spends its budget of error_rate 7.0 times too fast"),),
    ),
    Case("TidegateSloBurnSlow", "one bad hour after five good ones", burn("0x1440", "0x1200 7x240"), at="6h"),
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

CASES = TRAFFIC
