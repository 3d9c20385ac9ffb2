"""What this process says of itself in the store, for `tidegate status`."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, Final

from tidegate.domain.errors import StoreError
from tidegate.domain.topology import Topology
from tidegate.store.ports import Store
from xds_server.publisher import Publisher
from xds_server.server import Streams

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


async def beat(store: Store, instance: str, info: Callable[[], dict[str, Any]]) -> None:
    """Say every second that this instance lives, until cancelled. A store that fails is tried again."""
    while True:
        with contextlib.suppress(StoreError):  # the publisher, which reads the same store, says so
            await store.beat(SERVICE, instance, info(), ttl_ms=BEAT_TTL_MS)
        await asyncio.sleep(BEAT_SECONDS)
