"""From the parts of every replica's cost to the two that are named."""

from __future__ import annotations

import math
from collections.abc import Iterable

from tidegate.domain.pick.cost import cost
from tidegate.domain.pick.replica import Replica
from tidegate.domain.pick.settings import WEIGHTED_SUM
from tidegate.domain.pick.situation import Situation
from tidegate.domain.pick.turns import Turns
from tidegate.domain.pick.verdict import Scored
from tidegate.domain.pick.weighted_sum import weighted_sum


def best_two(situation: Situation, turns: Turns) -> tuple[Scored, ...]:
    """The replicas of least cost by the policy in force, best first; equals take turns for the first place."""
    settings = situation.settings
    parts = weighted_sum(situation) if settings.policy == WEIGHTED_SUM else cost(situation)
    rows = list(zip(*parts.values(), strict=True))
    totals: list[float] = list(map(sum, rows))
    first = turns.least(totals, situation.equal_seconds, situation.replicas)
    best = _scored(situation.replicas[first], totals[first], parts, rows[first])
    if len(totals) == 1:
        return (best,)
    totals[first] = math.inf
    second = totals.index(min(totals))
    return best, _scored(situation.replicas[second], totals[second], parts, rows[second])


def _scored(replica: Replica, total: float, names: Iterable[str], seconds: tuple[float, ...]) -> Scored:
    return Scored(replica.address, replica.destination or "", total, dict(zip(names, seconds, strict=True)))
