"""What was sent to each cluster by class, what its engines generated, and the output lengths that both teach."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from tidegate.domain.outputs import UNCLEAR, OutputLengths, class_of, decodes, is_class
from tidegate.domain.request import RequestInfo
from tidegate.domain.sample import EndpointSample
from tidegate.domain.tokens import Counted, EngineCounters

OUTPUTS = "outputs"
"""The key of an instance's presence under which it tells what it sent by class."""
MOST_CLASSES = 1024
"""Classes that are read of another instance and cluster; a sound one has far fewer."""

SequencesBy = Mapping[str, Mapping[str, int]]
"""Cluster → class → sequences that were sent."""


class ClusterOutputs:
    """One cluster's side of the ledger."""

    __slots__ = ("_usual", "engines", "expected", "lengths", "sent")

    def __init__(self) -> None:
        self.sent: dict[str, int] = {}
        self.expected = 0
        self.engines, self.lengths = EngineCounters(), OutputLengths()
        self._usual: dict[str, int] = {}

    def usual(self, name: str) -> int:
        """Tokens expected of one sequence of a class, at least 1; the same until `learned`."""
        found = self._usual.get(name)
        if found is None:
            found = self._usual[name] = max(1, round(self.lengths.of(name)))
        return found

    def learned(self) -> None:
        """Lengths may be others from here on."""
        self._usual.clear()


_UNLEARNED = ClusterOutputs()


def _at_most(tokens: int, limit: int | None) -> int:
    return tokens if limit is None or tokens < limit else limit


class OutputBook:
    """Expected output lengths by cluster, and the counts behind them. Belongs to the event loop."""

    def __init__(self, clusters: Iterable[str]) -> None:
        self.clusters = {name: ClusterOutputs() for name in clusters}

    def expected(self, cluster: str, info: RequestInfo) -> int:
        """Output tokens of one sequence of `info`: at most its own limit, 0 where nothing is decoded, else at least 1.

        A cluster that is not in the file has what is expected before anything is learned.
        """
        if not decodes(info):
            return 0
        return _at_most(self.clusters.get(cluster, _UNLEARNED).usual(class_of(info)), info.max_output_tokens)

    def dispatched(self, cluster: str, info: RequestInfo) -> None:
        """A request went there."""
        if not decodes(info):
            return
        book = self.clusters[cluster]
        own = class_of(info)
        name = own if info.num_sequences == info.num_prompts else UNCLEAR
        book.sent[name] = book.sent.get(name, 0) + info.num_sequences
        book.expected += info.num_sequences * _at_most(book.usual(own), info.max_output_tokens)

    def look(self, samples: Mapping[str, Iterable[EndpointSample]], others: Iterable[SequencesBy]) -> None:
        """Compare with the engines' counters. `others` is what further instances of ext_proc sent."""
        elsewhere = list(others)
        for name, book in self.clusters.items():
            counters = [one for sample in samples.get(name, ()) if (one := counters_of(sample)) is not None]
            if not book.engines.look(counters):
                book.lengths.restart()
            sent = dict(book.sent)
            for other in elsewhere:
                for kind, number in other.get(name, {}).items():
                    sent[kind] = sent.get(kind, 0) + number
            book.lengths.look(sent, book.engines.total)
            book.learned()

    def shared(self) -> dict[str, dict[str, int]]:
        """What this instance sent, as its presence tells it: cluster → class → sequences."""
        return {name: dict(book.sent) for name, book in self.clusters.items() if book.sent}


def counters_of(sample: EndpointSample) -> tuple[str, Counted] | None:
    """A replica's counters of requests that ended by its address; None when its engine has none."""
    if sample.requests_finished_total is None or sample.generation_tokens_total is None:
        return None
    return sample.address, Counted(sample.requests_finished_total, sample.generation_tokens_total)


def read_outputs(told: object) -> SequencesBy:
    """`shared` of another instance; what is not of its shape is left out."""
    pairs = told.items() if isinstance(told, dict) else ()
    return {str(name): _counts(by_class) for name, by_class in pairs if isinstance(by_class, dict)}


def _counts(by_class: Mapping[object, object]) -> dict[str, int]:
    listed = list(by_class.items())[:MOST_CLASSES]
    return {
        kind: number
        for kind, number in listed
        if isinstance(kind, str) and is_class(kind) and type(number) is int and number >= 0
    }


class OutputMetrics(Collector):
    """Expected against generated, so that the error is visible. Engines also count what others sent to them."""

    def __init__(self, registry: CollectorRegistry, book: OutputBook) -> None:
        self._book = book
        registry.register(self)

    def collect(self) -> Iterator[Metric]:
        expected = CounterMetricFamily(
            "tidegate_ext_proc_expected_output_tokens", "Output tokens expected of what was sent", labels=["cluster"]
        )
        counted = CounterMetricFamily(
            "tidegate_ext_proc_counted_output_tokens", "Output tokens that the engines generated", labels=["cluster"]
        )
        windows = CounterMetricFamily(
            "tidegate_ext_proc_output_windows", "Windows that taught output lengths", labels=["cluster"]
        )
        usual = GaugeMetricFamily(
            "tidegate_ext_proc_output_tokens", "Expected output tokens of one sequence", labels=["cluster", "class"]
        )
        for name, book in self._book.clusters.items():
            expected.add_metric([name], book.expected)
            counted.add_metric([name], book.engines.total.tokens)
            windows.add_metric([name], book.lengths.windows)
            for kind, tokens in book.lengths.learned.items():
                usual.add_metric([name, kind], tokens)
        yield from (expected, counted, windows, usual)
