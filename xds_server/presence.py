"""What this process says of itself in the store, for `tidegate status`."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable
from dataclasses import asdict
from typing import Any, Final

import structlog

from tidegate.domain.errors import StoreError
from tidegate.domain.topology import Topology
from tidegate.store.ports import Store
from xds_server.publisher import Publisher
from xds_server.server import Streams
from xds_server.subscription.stream import StreamStatus

log = structlog.get_logger("xds_server.presence")

OVERDUE_MS: Final = 5_000
"""Age of a push without a verdict from which on it is said: an Envoy that warms a cluster takes milliseconds."""
BEAT_SECONDS: Final = 1.0
BEAT_TTL_MS: Final = 3_000
SERVICE: Final = "xds"


def describe(topology: Topology, publisher: Publisher, streams: Streams, listen: str, now_ms: int) -> dict[str, Any]:
    """The beat: `listen`, `gateway`, `clusters` as served, `refused` by name, and `envoys` as each stands."""
    desired = publisher.desired
    served = {c.name: c for c in desired.clusters} if desired else {}
    clusters = [
        {
            "name": c.name,
            "models": list(c.models),
            "lb": str(c.lb),
            "addresses": [e.address for e in (served[c.name].endpoints if c.name in served else c.endpoints)],
        }
        for c in topology.clusters
    ]
    return {
        "listen": listen,
        "gateway": f"{desired.listen_host}:{desired.listen_port}" if desired else None,
        "clusters": clusters,
        "refused": {"xds": publisher.refused} if publisher.refused else {},
        "envoys": [asdict(status) for status in streams.status(now_ms)],
    }


class Overdue:
    """Says once when a client has not answered a push for long, and once when it has.

    Envoy can be stuck so: a push that it can neither accept nor refuse is the last that it looks at.
    """

    def __init__(self) -> None:
        self._said: set[tuple[str, str]] = set()

    def look(self, statuses: Iterable[StreamStatus]) -> None:
        """Compare with the look before."""
        late = {(s.node, t): ms for s in statuses for t, ms in s.unacked_ms.items() if ms >= OVERDUE_MS}
        for node, short in sorted(late.keys() - self._said):
            log.warning("a push is not answered", node=node, type=short, age_ms=late[node, short])
        for node, short in sorted(self._said - late.keys()):
            log.info("no push is unanswered any more", node=node, type=short)
        self._said = set(late)


async def beat(store: Store, instance: str, info: Callable[[], dict[str, Any]]) -> None:
    """Say every second that this instance lives, until cancelled. A store that fails is tried again."""
    while True:
        with contextlib.suppress(StoreError):  # the publisher, which reads the same store, says so
            await store.beat(SERVICE, instance, info(), ttl_ms=BEAT_TTL_MS)
        await asyncio.sleep(BEAT_SECONDS)
