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
    tokens_of,
)

SentBy = Mapping[str, Sent]
"""Cluster → what was sent to it."""


class ClusterTokens:
    """One cluster's side of the ledger: plain numbers, since every request adds to them."""

    __slots__ = ("_chars", "_exact", "_prompts", "_unclear", "engines", "estimated", "learned")

    def __init__(self) -> None:
        self.estimated = self._prompts = self._chars = self._exact = self._unclear = 0
        self.engines, self.learned = EngineCounters(), TokenRatio()

    @property
    def sent(self) -> Sent:
        """What was sent so far."""
        return Sent(self._prompts, self._chars, self._exact, self._unclear)

    def add(self, info: RequestInfo) -> None:
        """A request was sent. Engines count prompts of generations alone."""
        chars, exact = info.prompt_chars + info.tool_bytes, info.prompt_tokens or 0
        self.estimated += exact + tokens_of(chars, self.learned.ratio)
        if info.generation:
            self._prompts += info.num_prompts
            self._chars += chars
            self._exact += exact
            if info.media or info.num_sequences != info.num_prompts:
                self._unclear += info.num_prompts


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
        self.clusters[cluster].add(info)

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
        sent = {name: book.sent for name, book in self.clusters.items()}
        return {name: [one.prompts, one.chars, one.exact_tokens, one.unclear] for name, one in sent.items()}


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
