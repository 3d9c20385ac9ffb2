"""What the controller remembers between ticks, and how it gets that back from what it published."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tidegate.domain.memory import Memory, remembered
from tidegate.domain.operators import LARGEST_PIN, Intent

Explained = Mapping[str, Mapping[str, Mapping[str, Any]]]


@dataclass(frozen=True, slots=True)
class State:
    """Orders in force, and the newest `explain` by cluster and address: what was decided, and from what.

    `tuned` are the tunes and splits in force: `tune:phi-3 envoy.retries`, `split:phi-3` → text.
    `memories` are what the weight rule goes on
    from, by cluster and address.
    """

    intent: Intent = field(default_factory=Intent)
    explained: Explained = field(default_factory=dict)
    tuned: Mapping[str, str] = field(default_factory=dict)
    memories: Mapping[str, Mapping[str, Memory]] = field(default_factory=dict)

    def weights(self) -> dict[str, dict[str, int]]:
        """What was decided: by cluster that has replicas, and address."""
        decided = ((c, {address: one.weight for address, one in fields.items()}) for c, fields in self.memories.items())
        return {cluster: fields for cluster, fields in decided if fields}

    def memory(self, cluster: str, address: str) -> Memory | None:
        """What the last decision about a replica left."""
        return self.memories.get(cluster, {}).get(address)


def restored(explained: Explained, rejected: Mapping[str, str], tuned: Mapping[str, str] | None = None) -> State:
    """The state that an earlier controller published: a restart continues from it and repeats no event."""
    pins: dict[str, dict[str, int]] = {}
    drains: dict[str, dict[str, str]] = {}
    until_ms: dict[str, int] = {}
    for cluster, replicas in explained.items():
        for address, why in replicas.items():
            if (pin := _whole(why.get("pinned"))) is not None:
                pins.setdefault(cluster, {})[address] = pin
            if isinstance(drained := why.get("drained"), str):
                drains.setdefault(cluster, {})[address] = drained
            for kind, name in (("weight", "pinned_until_ms"), ("drain", "drained_until_ms")):
                if isinstance(end := why.get(name), int):
                    until_ms[f"{kind}:{cluster} {address}"] = end
    return State(Intent(pins, drains, dict(rejected), until_ms), explained, tuned or {}, _memories(explained))


def _memories(explained: Explained) -> dict[str, dict[str, Memory]]:
    read = {
        cluster: {address: remembered(why) for address, why in replicas.items()}
        for cluster, replicas in explained.items()
    }
    return {c: {address: one for address, one in fields.items() if one is not None} for c, fields in read.items()}


def _whole(value: object) -> int | None:
    whole = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= LARGEST_PIN
    return value if whole and isinstance(value, int) else None
