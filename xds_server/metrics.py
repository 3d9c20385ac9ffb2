"""What the xDS server counts, and how its clients stand at the moment of a scrape."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from xds_server.subscription.stream import StreamStatus
from xds_server.subscription.verdicts import Happening
from xds_server.type_urls import SHORT_NAMES

MOST_NODES: Final = 200
OTHER_NODES: Final = "others"
MOST_UNANSWERED: Final = 256
"""Pushes of one stream whose time is remembered."""
ACK_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0)


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
        acked = Histogram(
            "tidegate_xds_ack_seconds",
            "From a response to its acceptance",
            ["type"],
            buckets=ACK_SECONDS,
            registry=registry,
        )
        self._acked = {type_url: acked.labels(short) for type_url, short in SHORT_NAMES.items()}
        by_happening: dict[Happening, Counter] = {"push": pushes, "ack": acks, "nack": nacks}
        self._counted = {(what, t): c.labels(s) for what, c in by_happening.items() for t, s in SHORT_NAMES.items()}
        self._sent = {type_url: sent.labels(short) for type_url, short in SHORT_NAMES.items()}

    def count(self, happening: Happening, type_url: str) -> None:
        """Count one push, ACK or NACK of a type."""
        self._counted[happening, type_url].inc()

    def accepted(self, type_url: str, seconds: float) -> None:
        """A response was accepted so long after it was sent."""
        self._acked[type_url].observe(seconds)

    def sent(self, type_url: str, size_bytes: int) -> None:
        """Count the bytes of one response."""
        self._sent[type_url].inc(size_bytes)


class AckTimes:
    """One stream's: how long each response waited for its verdict. `clock` gives seconds, and never goes back."""

    def __init__(self, metrics: XdsMetrics, clock: Callable[[], float] = time.monotonic) -> None:
        self._metrics, self._clock = metrics, clock
        self._pushed: dict[tuple[str, str], float] = {}

    def saw(self, happening: Happening, type_url: str, version: str) -> None:
        """A push, or the acceptance of a version, which covers all pushes of its type before. A refusal names none."""
        if happening == "push":
            self._pushed[type_url, version] = self._clock()
            if len(self._pushed) > MOST_UNANSWERED:
                del self._pushed[next(iter(self._pushed))]
        elif happening == "ack" and (at := self._pushed.get((type_url, version))) is not None:
            self._metrics.accepted(type_url, self._clock() - at)
            self._pushed = {key: since for key, since in self._pushed.items() if key[0] != type_url or since > at}


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
