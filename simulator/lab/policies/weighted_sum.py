"""Weighted sum of normalised scores, as llm-d-router's endpoint picker: prefix 3, queue 2, KV 2, samples of 50 ms.

score = 3 · matched blocks / blocks + 2 · (longest − own queue) / (longest − shortest) + 2 · (1 − KV in use)
"""

from __future__ import annotations

from typing import Final

from simulator.lab.call import Call
from simulator.lab.policies.prefix_books import PrefixBooks
from simulator.lab.policy import Setting
from tidegate.domain.sample import EndpointSample

PREFIX_WEIGHT: Final = 3.0
QUEUE_WEIGHT: Final = 2.0
KV_WEIGHT: Final = 2.0


class WeightedSum(PrefixBooks):
    """The best score wins, equals by chance. The queue is the engine's `waiting`, as sampled."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self._waiting = [0] * len(setting.fleet)
        self._kv_used = [0.0] * len(setting.fleet)

    def sampled(self, replica: int, sample: EndpointSample, now: float) -> None:  # noqa: ARG002
        """Queue and KV use hold until the next sample."""
        self._waiting[replica] = sample.waiting or 0
        self._kv_used[replica] = sample.kv_used_ratio or 0.0

    def choose(self, call: Call, now: float) -> int | None:  # noqa: ARG002
        """The replica with the best score."""
        scores = [self._score(call, number) for number in range(len(self.in_flight))]
        best = max(scores)
        return self._rng.choice([number for number, score in enumerate(scores) if score == best])

    def _score(self, call: Call, number: int) -> float:
        longest, shortest = max(self._waiting), min(self._waiting)
        prefix = self.matched(call, number) / len(call.blocks) if call.blocks else 0.0
        queue = (longest - self._waiting[number]) / (longest - shortest) if longest > shortest else 1.0
        return PREFIX_WEIGHT * prefix + QUEUE_WEIGHT * queue + KV_WEIGHT * (1 - self._kv_used[number])
