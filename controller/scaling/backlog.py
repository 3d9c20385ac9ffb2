"""What waits: at the engines as their samples tell, and in the gateway as ext_proc tells."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

from tidegate.domain.sample import EndpointSample

RECENT_MS: Final = 15_000
"""How long a request that nobody could take is remembered: clients of a cluster without replicas try again."""

Instances = Mapping[str, Mapping[str, Any]]
"""What each ext_proc tells of itself, by instance."""


def backlogs(samples: Iterable[EndpointSample], pickers: Instances) -> dict[str, float]:
    """How many requests wait for each that runs, by cluster; clusters where nothing runs are left out."""
    running, waiting = Counter[str](), Counter[str]()
    for sample in samples:
        if sample.status.takes_traffic:
            running[sample.cluster] += sample.running or 0
            waiting[sample.cluster] += sample.waiting or 0
    for cluster, queued in _queued(pickers).items():
        waiting[cluster] += queued
    return {cluster: waiting[cluster] / count for cluster, count in running.items() if count}


def unserved(pickers: Instances, now_ms: int) -> set[str]:
    """Clusters for which a request came within the last seconds and found no replica, or waits for one."""
    asked = {cluster for cluster, queued in _queued(pickers).items() if queued}
    for info in pickers.values():
        told = info.get("unserved_at_ms")
        for cluster, at_ms in (told if isinstance(told, dict) else {}).items():
            if isinstance(at_ms, int) and now_ms - at_ms <= RECENT_MS:
                asked.add(cluster)
    return asked


def _queued(pickers: Instances) -> Counter[str]:
    queued = Counter[str]()
    for info in pickers.values():
        told = info.get("queues")
        for cluster, queue in (told if isinstance(told, dict) else {}).items():
            count = queue.get("waiting") if isinstance(queue, dict) else None
            queued[cluster] += count if isinstance(count, int) else 0
    return queued
