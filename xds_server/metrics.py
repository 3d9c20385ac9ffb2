"""What the xDS server counts, and how its clients stand at the moment of a scrape."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from xds_server.subscription.stream import StreamStatus
from xds_server.subscription.verdicts import Happening
from xds_server.type_urls import SHORT_NAMES

MOST_NODES: Final = 200
OTHER_NODES: Final = "others"


class XdsMetrics:
    """Counters of the streams, on the service's registry; labels are the four short type names."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.streams = Gauge("tidegate_xds_streams", "Envoys connected", registry=registry)
        self.refused_snapshots = Counter(
            "tidegate_xds_refused_snapshots_total", "Snapshots that failed the check", registry=registry
        )
        pushes = Counter("tidegate_xds_pushes_total", "Responses sent", ["type"], registry=registry)
        acks = Counter("tidegate_xds_acks_total", "Responses accepted", ["type"], registry=registry)
        nacks = Counter("tidegate_xds_nacks_total", "Responses refused", ["type"], registry=registry)
        sent = Counter("tidegate_xds_push_bytes_total", "Bytes of the responses sent", ["type"], registry=registry)
        by_happening: dict[Happening, Counter] = {"push": pushes, "ack": acks, "nack": nacks}
        self._counted = {(what, t): c.labels(s) for what, c in by_happening.items() for t, s in SHORT_NAMES.items()}
        self._sent = {type_url: sent.labels(short) for type_url, short in SHORT_NAMES.items()}

    def count(self, happening: Happening, type_url: str) -> None:
        """Count one push, ACK or NACK of a type."""
        self._counted[happening, type_url].inc()

    def sent(self, type_url: str, size_bytes: int) -> None:
        """Count the bytes of one response."""
        self._sent[type_url].inc(size_bytes)


class ClientStates(Collector):
    """How each client stands, by node and type. Nodes past the 200th, in order of connecting, share one label."""

    def __init__(self, statuses: Callable[[], Iterable[StreamStatus]], registry: CollectorRegistry) -> None:
        self._statuses = statuses
        registry.register(self)

    def describe(self) -> Iterable[Metric]:
        """Nothing: the registry need not collect in order to know the names."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Called by the registry at every scrape."""
        ages = GaugeMetricFamily(
            "tidegate_xds_unacked_age_seconds",
            "Age of the oldest push that a client has neither accepted nor refused; 0: none",
            labels=("node", "type"),
        )
        refused = GaugeMetricFamily(
            "tidegate_xds_last_push_refused",
            "Whether a client has refused a push and accepted none of that type since",
            labels=("node", "type"),
        )
        worst: dict[tuple[str, str], tuple[float, bool]] = {}
        for label, status in self._labelled():
            for short in {*status.acked, *status.nacked, *status.unacked_ms}:
                age, bad = worst.get((label, short), (0.0, False))
                own_age = status.unacked_ms.get(short, 0) / 1000
                worst[label, short] = (max(age, own_age), bad or short in status.refusing)
        for labels, (age, bad) in sorted(worst.items()):
            ages.add_metric(labels, age)
            refused.add_metric(labels, float(bad))
        yield from (ages, refused)

    def _labelled(self) -> Iterator[tuple[str, StreamStatus]]:
        known: set[str] = set()
        for status in self._statuses():
            if len(known) < MOST_NODES:
                known.add(status.node)
            yield (status.node if status.node in known else OTHER_NODES), status
