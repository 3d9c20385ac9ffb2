"""The metrics of `tidegate outcomes`, made when the page is asked for. Labels are bounded by the fleet and the file."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
    SummaryMetricFamily,
)
from prometheus_client.registry import Collector

from outcomes.book import Book
from outcomes.server import AccessLogs
from tidegate.domain.outcomes.ending import ENDINGS
from tidegate.domain.outcomes.slo import Slo, Spans, burn_rate, burns
from tidegate.domain.outcomes.tally import QUANTILES, Tally, merged

PREFIX: Final = "tidegate_outcomes"
WINDOWS: Final = ("5m", "1h")
OF_A_MINUTE: Final = f"quantiles {', '.join(map(str, QUANTILES))} of the last minute"


def steady_ms() -> int:
    """Milliseconds of a clock that never goes back."""
    return time.monotonic_ns() // 1_000_000


class Page(Collector):
    """Counts since the start; quantiles of the last minute; burn rates of all instances together."""

    def __init__(
        self,
        registry: CollectorRegistry,
        book: Book,
        logs: AccessLogs,
        slos: Mapping[str, Slo],
        spans: Callable[[], Mapping[str, Spans]],
        clock_ms: Callable[[], int] = steady_ms,
    ) -> None:
        self._book, self._logs, self._slos, self._spans, self._clock_ms = book, logs, slos, spans, clock_ms
        registry.register(self)

    def collect(self) -> Iterator[Metric]:
        yield from self._of_streams()
        yield from self._of_replicas()
        yield from self._of_models()
        yield from self._times()
        yield from self._latencies()
        yield from self._burning()

    def _of_streams(self) -> Iterator[Metric]:
        logs = self._logs
        yield GaugeMetricFamily(f"{PREFIX}_streams", "Access log streams open", value=logs.streams)
        yield GaugeMetricFamily(
            f"{PREFIX}_envoys", "Envoys with a stream", value=sum(1 for n in logs.nodes.values() if n > 0)
        )
        yield CounterMetricFamily(f"{PREFIX}_messages", "Messages received", value=logs.messages)
        entries = CounterMetricFamily(f"{PREFIX}_entries", "Entries and unreadable messages", labels=["kind"])
        for kind in ("counted", "ignored", "unreadable"):
            entries.add_metric([kind], getattr(logs, kind))
        yield entries

    def _of_replicas(self) -> Iterator[Metric]:
        where = ["cluster", "replica"]
        requests = CounterMetricFamily(f"{PREFIX}_requests", "Requests that ended", labels=[*where, "ending"])
        retries = CounterMetricFamily(f"{PREFIX}_retries", "Further attempts", labels=where)
        received = CounterMetricFamily(f"{PREFIX}_received_bytes", "Bytes from clients", labels=where)
        sent = CounterMetricFamily(f"{PREFIX}_sent_bytes", "Bytes to clients", labels=where)
        for name, place in self._book.places.items():
            for ending, count in zip(ENDINGS, place.ever, strict=True):
                requests.add_metric([*name, ending], count)
            retries.add_metric(name, place.retries)
            received.add_metric(name, place.received_bytes)
            sent.add_metric(name, place.sent_bytes)
        yield from (requests, retries, received, sent)

    def _of_models(self) -> Iterator[Metric]:
        models = CounterMetricFamily(
            f"{PREFIX}_model_requests", "Requests that ended, by model", labels=["model", "class", "ending"]
        )
        for (model, request_class), counts in self._book.by_model.items():
            for ending, count in zip(ENDINGS, counts, strict=True):
                models.add_metric([model, request_class, ending], count)
        yield models
        refusals = CounterMetricFamily(f"{PREFIX}_refusals", "Answers without an engine", labels=["reason", "model"])
        for (reason, model), count in self._book.refusals.items():
            refusals.add_metric([reason, model], count)
        yield refusals

    def _times(self) -> Iterator[Metric]:
        first = HistogramMetricFamily(f"{PREFIX}_first_byte_seconds", "Time until the first byte", labels=["cluster"])
        last = HistogramMetricFamily(f"{PREFIX}_last_byte_seconds", "Time until the last byte", labels=["cluster"])
        for cluster, times in self._book.times.items():
            times.first_byte.into(first, [cluster])
            times.last_byte.into(last, [cluster])
        yield from (first, last)

    def _latencies(self) -> Iterator[Metric]:
        now_ms, where = self._clock_ms(), ["cluster", "replica"]
        ttfb = SummaryMetricFamily(f"{PREFIX}_ttfb_seconds", f"First byte, {OF_A_MINUTE}", labels=where)
        total = SummaryMetricFamily(f"{PREFIX}_total_seconds", f"Last byte, {OF_A_MINUTE}", labels=where)
        by_cluster: dict[str, list[Tally]] = {}
        for (cluster, replica), window in self._book.windows().items():
            tally = window.tally(now_ms)
            by_cluster.setdefault(cluster, []).append(tally)
            _add(ttfb, total, (cluster, replica), tally)
        for cluster, tallies in by_cluster.items():
            _add(ttfb, total, (cluster, "all"), merged(tallies))
        yield from (ttfb, total)

    def _burning(self) -> Iterator[Metric]:
        rate = GaugeMetricFamily(
            f"{PREFIX}_slo_burn_ratio",
            "How fast the budget is spent; at 1 all of it is, in its period",
            labels=["model", "objective", "window"],
        )
        burning = GaugeMetricFamily(
            f"{PREFIX}_slo_burning", "1 where both windows burn fast", labels=["model", "objective"]
        )
        for model, spans in self._spans().items():
            if (slo := self._slos.get(model)) is None:
                continue
            for objective in slo.objectives:
                rates = [burn_rate(slo, objective, counts) for counts in (spans.short, spans.long)]
                for window, value in zip(WINDOWS, rates, strict=True):
                    if value is not None:
                        rate.add_metric([model, objective, window], value)
                burning.add_metric([model, objective], burns(*rates))
        yield from (rate, burning)


def _add(ttfb: SummaryMetricFamily, total: SummaryMetricFamily, place: tuple[str, str], tally: Tally) -> None:
    labels = dict(zip(("cluster", "replica"), place, strict=True))
    add_quantiles(ttfb, labels, tally.ttfb.quantile_ms)
    add_quantiles(total, labels, tally.total.quantile_ms)


def add_quantiles(
    family: SummaryMetricFamily, labels: Mapping[str, str], quantile_ms: Callable[[float], float | None]
) -> None:
    """Quantiles in seconds, unknown ones left out. Sum and count are those of the histograms."""
    for part in QUANTILES:
        if (value := quantile_ms(part)) is not None:
            family.add_sample(family.name, {**labels, "quantile": str(part)}, value / 1000)
