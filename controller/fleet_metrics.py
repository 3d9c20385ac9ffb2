"""The fleet as the leader sees it, and who leads. Only a leader shows replicas: sums over instances count each once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from controller.controller import Controller
from controller.decide import World
from controller.state import State
from tidegate.domain.load import PARTS
from tidegate.domain.sample import Status

UNKNOWN: Final = "unknown"
STATUSES: Final = (*Status, UNKNOWN)
REPLICA: Final = ("cluster", "replica")


class FleetMetrics(Collector):
    """Registered when made; `close()` takes it off the registry. Labels are members of the file and of the store."""

    def __init__(self, registry: CollectorRegistry, controller: Controller) -> None:
        self._registry, self._controller = registry, controller
        registry.register(self)

    def close(self) -> None:
        """Unregister."""
        self._registry.unregister(self)

    def collect(self) -> Iterator[Metric]:
        lease, seen = self._controller.lease, self._controller.seen
        yield GaugeMetricFamily("tidegate_controller_leads", "1 where this controller leads", value=lease is not None)
        since = GaugeMetricFamily(
            "tidegate_controller_lead_since_seconds", "Unix time at which the lead in force was taken", labels=()
        )
        if lease is not None:
            since.add_metric((), lease.token / 1000)
        yield since
        world, state = seen if lease is not None and seen is not None else (None, State())
        yield from _decided(state)
        yield from _sampled(world, self._controller.clock())


def _decided(state: State) -> Iterator[Metric]:
    """What was decided about each replica, and from what."""
    counts = GaugeMetricFamily("tidegate_replicas", "Replicas by their state", labels=("cluster", "status"))
    weights = _per_replica("tidegate_replica_weight_permille", "What Envoy gets; 0 takes nothing new")
    loads = _per_replica("tidegate_replica_load_ratio", "How full, all parts together")
    parts = GaugeMetricFamily(
        "tidegate_replica_load_part_ratio", "How full by one part; unknown ones are absent", labels=(*REPLICA, "part")
    )
    for cluster, replicas in state.explained.items():
        by_status = Counter(str(why.get("status") or UNKNOWN) for why in replicas.values())
        for status in STATUSES:
            counts.add_metric((cluster, status), by_status[status])
        for address, why in replicas.items():
            memory, load = state.memory(cluster, address), why.get("load") or {}
            _add(weights, (cluster, address), memory and memory.weight)
            _add(loads, (cluster, address), load.get("total"))
            for part in PARTS:
                _add(parts, (cluster, address, part), load.get(part))
    yield from (counts, weights, loads, parts)


def _sampled(world: World | None, now_ms: int) -> Iterator[Metric]:
    """What each replica's newest sample says."""
    ages = _per_replica("tidegate_replica_sample_age_seconds", "Age of the newest sample that the leader has")
    running = _per_replica("tidegate_replica_running_requests", "Requests that the engine works on")
    waiting = _per_replica("tidegate_replica_waiting_requests", "Requests that wait in the engine")
    kv_used = _per_replica("tidegate_replica_kv_used_ratio", "KV cache in use")
    for sample in world.samples if world is not None else ():
        place = (sample.cluster, sample.address)
        ages.add_metric(place, sample.age_ms(now_ms) / 1000)
        _add(running, place, sample.running)
        _add(waiting, place, sample.waiting)
        _add(kv_used, place, sample.kv_used_ratio)
    yield from (ages, running, waiting, kv_used)


def _per_replica(name: str, meaning: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, meaning, labels=REPLICA)


def _add(family: GaugeMetricFamily, labels: tuple[str, ...], value: Any) -> None:
    """Nothing where the value is unknown: that is not 0."""
    if value is not None:
        family.add_metric(labels, value)
