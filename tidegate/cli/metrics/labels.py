"""What each label of ours may hold: no label's values are for clients to choose."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

BOUNDS: Final[Mapping[str, str]] = {
    "by": "`pick`, `weights`",
    "cause": "six words: why a page could not be used",
    "class": "request classes of the file, `default`, `other`; in `tidegate_ext_proc_output_tokens` classes by kind "
    "and size, some twenty",
    "cluster": "clusters of the file, and Envoy's own",
    "command": "first commands of the round trips that Tidegate makes, some twenty",
    "duty": "what a leader does beside weights, by name",
    "ending": "how a request may end: the words of [outcomes](outcomes.md)",
    "endpoint": "engines that this agent watches; the series end when it watches them no more",
    "event": "`began`, `ended`, `would have begun` of an act, and the like: a few words",
    "hook": "the paths of hooks there are, and `other`",
    "phase": "phases of a rollout: six words",
    "result": "how a request to a hook may end: twelve words",
    "turn": "what a rollout may do: a few words",
    "kind": "`protocol` and `crash`; `counted`, `ignored` and `unreadable`; `unavailable` and `refused`; kinds of acts",
    "model": "models and aliases of the file, and `other` for any other name",
    "node": "200 Envoys by node id, and `others`",
    "objective": "objectives of the file's `slo`",
    "outcome": "how a request may leave a queue, seven words; what becomes of a span, three",
    "pair": "certificates of the service",
    "part": "`latency`, `vram`, `entropy`",
    "priority": "bands of priorities: a few words",
    "reason": "the [reasons](requests.md) of refusals, and `gateway`; why a cluster's replica target changed",
    "replica": "replicas of the file and those that agents registered, while they are members; `all`",
    "source": "`file`, `flag`, `folder`",
    "state": "states of [NVML](nvml.md)",
    "status": "the statuses of a replica, and `unknown`",
    "task": "background tasks of the service",
    "type": "`cds`, `eds`, `lds`, `rds`",
    "version": "versions of the file's splits; in `tidegate_build_info` Tidegate's own",
    "what": "`told`, `heard`, `dropped`, `late`",
    "window": "`5m`, `1h`",
    "worker": "workers that were asked for",
}


def unbounded(labels: Iterable[str]) -> list[str]:
    """Those of which nothing is said."""
    return sorted(set(labels) - BOUNDS.keys())


def bound_of(label: str) -> str:
    """The values that there may be."""
    return BOUNDS[label]
