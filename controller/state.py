"""What the controller remembers between ticks, and how it gets that back from what it published."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tidegate.domain.operators import LARGEST_PIN, Intent

Explained = Mapping[str, Mapping[str, Mapping[str, Any]]]


@dataclass(frozen=True, slots=True)
class State:
    """Orders in force, and the newest `explain` by cluster and address: what was decided, and from what."""

    intent: Intent = field(default_factory=Intent)
    explained: Explained = field(default_factory=dict)

    def automatic(self, cluster: str, address: str) -> int | None:
        """The last automatic weight of a replica, 0…1000."""
        return _whole(self.explained.get(cluster, {}).get(address, {}).get("automatic"))


def restored(explained: Explained, rejected: Mapping[str, str]) -> State:
    """The state that an earlier controller published: a restart continues from it and repeats no event."""
    pins: dict[str, dict[str, int]] = {}
    drains: dict[str, dict[str, str]] = {}
    for cluster, replicas in explained.items():
        for address, why in replicas.items():
            if (pin := _whole(why.get("pinned"))) is not None:
                pins.setdefault(cluster, {})[address] = pin
            if isinstance(drained := why.get("drained"), str):
                drains.setdefault(cluster, {})[address] = drained
    return State(Intent(pins, drains, dict(rejected)), explained)


def _whole(value: object) -> int | None:
    whole = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= LARGEST_PIN
    return value if whole and isinstance(value, int) else None
