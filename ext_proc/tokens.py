"""What was sent to each cluster, what its engines counted, and the ratio that both teach."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tidegate.domain.request import RequestInfo
from tidegate.domain.sample import EndpointSample
from tidegate.domain.tokens import (
    FIRST_RATIO,
    Counted,
    EngineCounters,
    Sent,
    TokenRatio,
    estimate_tokens,
    sent_by,
)

SentBy = Mapping[str, Sent]
"""Cluster → what was sent to it."""


class ClusterTokens:
    """One cluster's side of the ledger."""

    __slots__ = ("engines", "estimated", "learned", "sent")

    def __init__(self) -> None:
        self.sent, self.estimated = Sent(), 0
        self.engines, self.learned = EngineCounters(), TokenRatio()


class TokenBook:
    """Ratios by cluster, and the counts behind them. Belongs to the event loop."""

    def __init__(self, clusters: Iterable[str]) -> None:
        self.clusters = {name: ClusterTokens() for name in clusters}

    def ratio_of(self, cluster: str) -> float:
        """Characters a token; the first guess for a cluster that is not in the file."""
        known = self.clusters.get(cluster)
        return FIRST_RATIO if known is None else known.learned.ratio

    def dispatched(self, cluster: str, info: RequestInfo) -> None:
        """A request went there."""
        book = self.clusters[cluster]
        book.sent += sent_by(info)
        book.estimated += estimate_tokens(info, book.learned.ratio)

    def look(self, samples: Mapping[str, Iterable[EndpointSample]], others: Iterable[SentBy]) -> None:
        """Compare with the engines' counters. `others` is what further instances of ext_proc sent."""
        elsewhere = list(others)
        for name, book in self.clusters.items():
            counters = [one for sample in samples.get(name, ()) if (one := counters_of(sample)) is not None]
            if not book.engines.look(counters):
                book.learned.restart()
            sent = sum((other.get(name, Sent()) for other in elsewhere), book.sent)
            book.learned.look(sent, book.engines.total)

    def shared(self) -> dict[str, list[int]]:
        """What this instance sent, as its presence tells it: cluster → [prompts, chars, exact tokens, unclear]."""
        return {
            name: [book.sent.prompts, book.sent.chars, book.sent.exact_tokens, book.sent.unclear]
            for name, book in self.clusters.items()
        }


def counters_of(sample: EndpointSample) -> tuple[str, Counted] | None:
    """A replica's counters by its address; None when its engine has none."""
    if sample.prompts_total is None or sample.prompt_tokens_total is None:
        return None
    return sample.address, Counted(sample.prompts_total, sample.prompt_tokens_total)


def read_shared(told: object) -> SentBy:
    """`shared` of another instance; what is not of its shape is left out."""
    pairs = told.items() if isinstance(told, dict) else ()
    return {str(name): Sent(*numbers) for name, numbers in pairs if _are_counts(numbers)}


def _are_counts(numbers: object) -> bool:
    return isinstance(numbers, list) and len(numbers) == 4 and all(type(one) is int for one in numbers)
