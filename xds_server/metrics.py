"""What the xDS server counts."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge

from xds_server.subscription import Happening
from xds_server.type_urls import SHORT_NAMES


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
        self._counters: dict[Happening, Counter] = {"push": pushes, "ack": acks, "nack": nacks}

    def count(self, happening: Happening, type_url: str) -> None:
        """Count one push, ACK or NACK of a type."""
        self._counters[happening].labels(SHORT_NAMES[type_url]).inc()
