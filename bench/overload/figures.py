"""What the outcomes of an overload mean."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from bench.load.asyncio_client import quantile
from bench.overload.load import BROKEN, Outcome


def ttfts(outcomes: Iterable[Outcome], kind: str) -> list[float]:
    """Seconds to the first byte of the answers of one kind, ascending."""
    return sorted(one.ttft_seconds for one in outcomes if one.kind == kind and one.ttft_seconds is not None)


def ratio(loaded: Sequence[float], unloaded: Sequence[float], at: float) -> float:
    """How much longer the quantile `at` has become."""
    return quantile(loaded, at) / quantile(unloaded, at)


def share(outcomes: Iterable[Outcome], kind: str, of: Sequence[str], since: float, until: float) -> float:
    """The part of `kind` in the answers of the kinds `of` that ended between two moments."""
    served = Counter(one.kind for one in outcomes if one.status == "200" and since <= one.ended_at <= until)
    return served[kind] / max(1, sum(served[one] for one in of))


def part(early: Mapping[str, float], late: Mapping[str, float], kind: str, of: Sequence[str]) -> float:
    """The part of `kind` in what was placed of the kinds `of` between two looks at the counters."""
    placed = {one: late.get(one, 0.0) - early.get(one, 0.0) for one in of}
    return placed[kind] / max(1.0, sum(placed.values()))


def unanswered(outcomes: Iterable[Outcome]) -> int:
    """Requests that nobody answered, and that did not leave themselves."""
    return sum(one.status == BROKEN for one in outcomes)
