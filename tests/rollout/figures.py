"""Figures of versions that do as they are told, drawn by a seeded generator."""

from __future__ import annotations

import random
from collections.abc import Callable

from tidegate.domain.outcomes.ending import ENDINGS, Ending
from tidegate.domain.outcomes.sketch import key_of
from tidegate.domain.outcomes.version import Figures, VersionTold

Times = Callable[[random.Random], float]


def lognormal(median_ms: float, spread: float = 0.6) -> Times:
    """Milliseconds as engines have them: many short answers, some long."""
    return lambda rng: median_ms * rng.lognormvariate(0.0, spread)


SAME: Times = lognormal(200.0)


def counts(**by_ending: int) -> list[int]:
    return [by_ending.get(ending.value, 0) for ending in ENDINGS]


def figures(requests: int, faults: int = 0, ms: float = 100.0, **others: int) -> Figures:
    """`requests` judged ones, `faults` of them faults, the others served in `ms`; and others by ending."""
    served = requests - faults
    times = {key_of(ms): served} if served else {}
    return Figures(counts(served=served, fault=faults, **others), times)


def drawn(rng: random.Random, requests: int, fault_ratio: float = 0.0, times: Times = SAME) -> Figures:
    """So many requests of a version."""
    found = Figures()
    for _ in range(requests):
        if rng.random() < fault_ratio:
            found.counts[Ending.FAULT.place] += 1
            continue
        found.counts[Ending.SERVED.place] += 1
        key = key_of(times(rng))
        found.times[key] = found.times.get(key, 0) + 1
    return found


def told(figures: Figures) -> VersionTold:
    """What an instance tells whose last minute is all of its life."""
    bins, before = list[int](), 0
    for key in sorted(figures.times):
        bins += (key - before, figures.times[key])
        before = key
    return VersionTold(list(figures.counts), bins, list(figures.counts), bins)
