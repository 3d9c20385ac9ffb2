"""A small cluster for controller tests."""

from __future__ import annotations

from tidegate.domain.sample import EndpointSample, NodeSample, NodeTick, Status
from tidegate.domain.topology import Cluster, Endpoint, Topology

A, B = "10.0.0.5:8000", "10.0.0.6:8000"
TOPOLOGY = Topology(clusters=(Cluster(name="phi-3", models=("phi-3",), endpoints=(Endpoint(A), Endpoint(B))),))


def tick(at_ms, *, cluster="phi-3", seq=1, **kv_by_name):
    """One agent's message; `a` and `b` give KV use of the two replicas or a Status."""
    return NodeTick(
        node=NodeSample(node="n", sampled_at_ms=at_ms, seq=seq, nvml="no_library", gpus={}),
        endpoints=tuple(
            _sample({"a": A, "b": B}.get(name, name), cluster, at_ms, seq, told) for name, told in kv_by_name.items()
        ),
    )


def _sample(address, cluster, at_ms, seq, told):
    status = told if isinstance(told, Status) else Status.READY
    kv = None if isinstance(told, Status) else told
    return EndpointSample(
        cluster=cluster, address=address, node="n", sampled_at_ms=at_ms, seq=seq, status=status, kv_used_ratio=kv
    )


class Clock:
    """Unix milliseconds that a test sets."""

    def __init__(self, at_ms=1_000_000):
        self.at_ms = at_ms

    def __call__(self):
        return self.at_ms
