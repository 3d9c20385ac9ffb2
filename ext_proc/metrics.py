"""Counts of what was decided, kept as plain numbers on the hot path and turned into metrics when scraped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from ext_proc.tokens import TokenBook
from tidegate.buckets import Buckets
from tidegate.domain.refusal import Reason

BOUNDS_SECONDS: Final = (25e-6, 50e-6, 100e-6, 250e-6, 500e-6, 1e-3, 2.5e-3, 5e-3, 10e-3, 50e-3, 0.25)


class ExtProcMetrics(Collector):
    """What ext_proc did since it started. Labels are cluster names of the file and reasons of the contract."""

    def __init__(self, registry: CollectorRegistry, tokens: TokenBook) -> None:
        self._tokens = tokens
        self.open_streams = 0
        self._decisions: Counter[tuple[str, str]] = Counter()
        self._refusals: Counter[Reason] = Counter()
        self._failures: Counter[str] = Counter()
        self._took = Buckets(BOUNDS_SECONDS)
        registry.register(self)

    def decided(self, cluster: str, by: str) -> None:
        """A request was sent to `cluster`; `by` is `pick` (ext_proc named the replica) or `weights` (Envoy does)."""
        self._decisions[cluster, by] += 1

    def refused(self, reason: Reason) -> None:
        """A request was answered in an engine's place."""
        self._refusals[reason] += 1

    def failed(self, kind: str) -> None:
        """A stream was aborted: `protocol` (Envoy's fault) or `crash` (ours)."""
        self._failures[kind] += 1

    def took(self, seconds: float, trace_id: str | None = None) -> None:
        """One decision, refusals included, took this long; `trace_id` is that of a sampled trace, 32 hex digits."""
        self._took.add(seconds, trace_id)

    def collect(self) -> Iterator[Metric]:
        decisions = CounterMetricFamily(
            "tidegate_ext_proc_decisions", "Requests sent to a cluster", labels=["cluster", "by"]
        )
        for (cluster, by), count in self._decisions.items():
            decisions.add_metric([cluster, by], count)
        yield decisions
        refusals = CounterMetricFamily("tidegate_ext_proc_refusals", "Requests answered", labels=["reason"])
        for reason in Reason:
            refusals.add_metric([reason], self._refusals[reason])
        yield refusals
        failures = CounterMetricFamily("tidegate_ext_proc_failures", "Streams aborted", labels=["kind"])
        for kind in ("protocol", "crash"):
            failures.add_metric([kind], self._failures[kind])
        yield failures
        yield GaugeMetricFamily("tidegate_ext_proc_open_streams", "Streams open", value=self.open_streams)
        yield self._durations()
        yield from self._prompts()

    def _prompts(self) -> Iterator[Metric]:
        """Estimated against counted, so that the error is visible. Engines also count what others sent to them."""
        estimated = CounterMetricFamily(
            "tidegate_ext_proc_estimated_prompt_tokens", "Prompt tokens sent, as estimated", labels=["cluster"]
        )
        counted = CounterMetricFamily(
            "tidegate_ext_proc_counted_prompt_tokens", "Prompt tokens as the engines counted them", labels=["cluster"]
        )
        ratio = GaugeMetricFamily(
            "tidegate_ext_proc_characters_per_token", "Learned size of a token, from 1 to 8", labels=["cluster"]
        )
        for name, book in self._tokens.clusters.items():
            estimated.add_metric([name], book.estimated)
            counted.add_metric([name], book.engines.total.tokens)
            ratio.add_metric([name], book.learned.ratio)
        yield from (estimated, counted, ratio)

    def _durations(self) -> Metric:
        family = HistogramMetricFamily("tidegate_ext_proc_decision_seconds", "Time of one decision")
        self._took.into(family, [])
        return family
