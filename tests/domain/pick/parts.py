"""A small fleet in front of a picker."""

from __future__ import annotations

from collections import Counter
from typing import Any

from tidegate.domain.pick.picker import ClusterPicker, Handle
from tidegate.domain.pick.settings import PickSettings
from tidegate.domain.pick.work import Work
from tidegate.domain.sample import EndpointSample, Status

NOW = 1_800_000_000_000
TTL_MS = 3_000
CAPACITY = 500_000


def address(number: int) -> str:
    return f"10.0.0.{number + 1}:8000"


def sample(replica: int = 0, at_ms: float = NOW, **changes: Any) -> EndpointSample:
    """An idle replica with an empty cache."""
    fields: dict[str, Any] = {
        "status": Status.READY,
        "running": 0,
        "waiting": 0,
        "kv_used_ratio": 0.0,
        "kv_capacity_tokens": CAPACITY,
        "block_size": 16,
        "prompts_total": 0,
        "prompt_tokens_total": 0,
    }
    fields |= changes
    return EndpointSample(cluster="c", address=address(replica), node="n", sampled_at_ms=round(at_ms), seq=1, **fields)


class Fleet:
    """`replicas` idle ones that served for long, before a picker with the given settings."""

    def __init__(self, replicas: int = 2, **settings: Any) -> None:
        self.picker = ClusterPicker(PickSettings(**settings), sample_ttl_ms=TTL_MS)
        self.now = float(NOW)
        for number in range(replicas):
            self.picker.joined(address(number), address(number))
            self.picker.sampled(sample(number, NOW - 3_600_000), NOW - 3_600_000)
            self.see(number)

    def see(self, replica: int, **changes: Any) -> None:
        self.picker.sampled(sample(replica, self.now, **changes), self.now)

    def named(self, work: Work | None = None, **how: Any) -> list[str]:
        """Whom the picker names for the request."""
        return [one.address for one in self.picker.pick(work or Work(prompt_tokens=1000), self.now, **how).chosen]

    def send(self, work: Work | None = None) -> tuple[str, Handle]:
        """Pick and dispatch."""
        work = work or Work(prompt_tokens=1000)
        first = self.named(work)[0]
        return first, self.picker.sent(first, work, self.now)

    def burst(self, count: int, work: Work | None = None) -> Counter[str]:
        return Counter(self.send(work)[0] for _ in range(count))
