"""Which engines an agent watches, and what their registration says of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from tidegate.domain.topology import Endpoint, Kind, Precision, Topology

Place = tuple[str, str]
"""Cluster and `host:port`: what an engine is to Redis."""


class Source(StrEnum):
    """Who named an engine."""

    FILE = "file"
    FLAG = "flag"
    FOLDER = "folder"


@dataclass(frozen=True, slots=True)
class Target:
    """One engine: its cluster, its `host:port`, and the GPUs it runs on (NVML indexes or UUIDs).

    `models`, `precision` and `kind` travel in its samples; unset is unknown. `engine` is its name in the vendor
    table, and `metrics` is `host:port` or `host:port/path` of its metrics page; unset is found out.
    """

    cluster: str
    address: str
    gpus: tuple[int | str, ...] = ()
    models: tuple[str, ...] = ()
    precision: Precision | None = None
    kind: Kind | None = None
    source: Source = Source.FILE
    engine: str | None = None
    metrics: str | None = None

    @property
    def place(self) -> Place:
        """Its identity."""
        return self.cluster, self.address


def targets(topology: Topology, node: str, *, all_nodes: bool) -> list[Target]:
    """The file's endpoints of this node, in file order.

    An endpoint that names no node belongs to the agents with `all_nodes`, and to every agent when the file names
    no node anywhere: one agent with one file needs no flag.
    """
    endpoints = [(c.name, e) for c in topology.clusters for e in c.endpoints]
    everything = all_nodes or all(e.node is None for _, e in endpoints)
    return [_target(name, e) for name, e in endpoints if everything or e.node == node]


def each_once(named: Iterable[Target]) -> list[Target]:
    """The first of each place."""
    found: dict[Place, Target] = {}
    for target in named:
        found.setdefault(target.place, target)
    return list(found.values())


def _target(cluster: str, endpoint: Endpoint) -> Target:
    return Target(cluster, endpoint.address, endpoint.gpus, engine=endpoint.engine, metrics=endpoint.metrics)
