"""Rollouts on the metrics page of the process that leads."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from tidegate.domain.rollout.course import Phase, State
from tidegate.domain.split import fields_of

STALE_SECONDS: Final = 5.0
"""Who leads no more shows no rollouts."""
TURNS: Final = ("step", "done", "paused", "rolled back", "aborted", "refused")


class RolloutMetrics(Collector):
    """Where rollouts are, and what they came to since the start. Labels are models and clusters of the file."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._states: Mapping[str, State] = {}
        self._shown_at = 0.0
        self._turns: Counter[str] = Counter()
        self._registry = registry
        registry.register(self)

    def close(self) -> None:
        """Take them off the page again."""
        self._registry.unregister(self)

    def show(self, states: Mapping[str, State | None]) -> None:
        """The rollouts there are, by model."""
        self._states = {model: state for model, state in states.items() if state is not None}
        self._shown_at = time.monotonic()

    def count(self, turn: str) -> None:
        """Something happened that is one of TURNS."""
        self._turns[turn] += 1

    def collect(self) -> Iterator[Metric]:
        share = GaugeMetricFamily(
            "tidegate_rollout_permille", "Share that the canary was given last", labels=["model", "version"]
        )
        phase = GaugeMetricFamily("tidegate_rollout_phase", "1 for the phase it is in", labels=["model", "phase"])
        stale = time.monotonic() - self._shown_at > STALE_SECONDS
        for model, state in () if stale else self._states.items():
            if state.canary:
                share.add_metric([model, state.canary], float(fields_of(state.split).get(state.canary, "0")))
            for one in Phase:
                phase.add_metric([model, one], state.phase is one)
        turns = CounterMetricFamily("tidegate_rollout_turns", "Steps, pauses and ends", labels=["turn"])
        for turn in TURNS:
            turns.add_metric([turn.replace(" ", "_")], self._turns[turn])
        yield from (share, phase, turns)
