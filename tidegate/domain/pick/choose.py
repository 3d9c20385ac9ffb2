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
    left = candidates
    for stays in filters:
        left = [candidate for candidate in left if stays(candidate, moment)]
    return _cheapest_two(_by_cost(left, moment, terms), moment.rotation)


def _by_cost(candidates: Sequence[Candidate], moment: Moment, terms: Sequence[Term]) -> dict[float, list[Candidate]]:
    costs: dict[float, list[Candidate]] = {}
    for candidate in candidates:
        cost = 0.0
        for term in terms:
            cost += term(candidate, moment)
        costs.setdefault(cost, []).append(candidate)
    return costs


def _cheapest_two(costs: dict[float, list[Candidate]], rotation: int) -> tuple[Candidate, ...]:
    chosen: list[Candidate] = []
    for cost in sorted(costs):
        equals = costs[cost]
        start = rotation % len(equals)
        chosen += (equals[start:] + equals[:start])[: 2 - len(chosen)]
        if len(chosen) == 2:
            break
    return tuple(chosen)
