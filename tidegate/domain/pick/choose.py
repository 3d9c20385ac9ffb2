"""filter → cost → pick."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from tidegate.domain.pick.candidate import Candidate, Moment
from tidegate.domain.pick.cost_queue import queue_cost
from tidegate.domain.pick.filters import addressable, fresh, known_closed, takes_traffic, weighted

Filter = Callable[[Candidate, Moment], bool]
Term = Callable[[Candidate, Moment], float]

FILTERS: Final[tuple[Filter, ...]] = (weighted, addressable, fresh, takes_traffic)
TERMS: Final[tuple[Term, ...]] = (queue_cost,)


def can_serve(candidates: Iterable[Candidate], moment: Moment) -> bool:
    """Whether any replica is not known to be closed. False for an empty cluster."""
    return any(not known_closed(candidate, moment) for candidate in candidates)


def choose(
    candidates: Sequence[Candidate],
    moment: Moment,
    filters: Sequence[Filter] = FILTERS,
    terms: Sequence[Term] = TERMS,
) -> tuple[Candidate, ...]:
    """Up to two replicas, cheapest first; none when no replica passes the filters.

    Equal costs rotate by `moment.rotation`. None chosen means that Envoy's weighted balancing decides.
    """
    costs: dict[float, list[Candidate]] = {}
    for candidate in candidates:
        if all(stays(candidate, moment) for stays in filters):
            cost = sum(term(candidate, moment) for term in terms)
            costs.setdefault(cost, []).append(candidate)
    return _cheapest_two(costs, moment.rotation)


def _cheapest_two(costs: dict[float, list[Candidate]], rotation: int) -> tuple[Candidate, ...]:
    chosen: list[Candidate] = []
    for cost in sorted(costs):
        equals = costs[cost]
        start = rotation % len(equals)
        chosen += (equals[start:] + equals[:start])[: 2 - len(chosen)]
        if len(chosen) == 2:
            break
    return tuple(chosen)
