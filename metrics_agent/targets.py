"""Which engines an agent watches."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.domain.topology import Endpoint, Topology


@dataclass(frozen=True, slots=True)
class Target:
    """One engine: its cluster, its `host:port`, and the GPUs it runs on (NVML indexes or UUIDs)."""

    cluster: str
    address: str
    gpus: tuple[int | str, ...] = ()


def targets(topology: Topology, node: str, *, all_nodes: bool) -> list[Target]:
    """The file's endpoints of this node, in file order.

    An endpoint that names no node belongs to the agents with `all_nodes`, and to every agent when the file names
    no node anywhere: one agent with one file needs no flag.
    """
    endpoints = [(c.name, e) for c in topology.clusters for e in c.endpoints]
    everything = all_nodes or all(e.node is None for _, e in endpoints)
    return [_target(name, e) for name, e in endpoints if everything or e.node == node]


def _target(cluster: str, endpoint: Endpoint) -> Target:
    return Target(cluster, endpoint.address, endpoint.gpus)
