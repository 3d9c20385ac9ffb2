"""The version of a model that a request meets: splits in force, what clients ask for, and versions that serve nobody.

The file's splits hold until the store says otherwise, and whenever it says nothing: who judges what operators type is
the controller, and what it accepts stands in `tuned`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import structlog
from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from tidegate.domain.actions.layers import with_splits
from tidegate.domain.refusal import Reason, Refusal
from tidegate.domain.routing import RouteRule
from tidegate.domain.split import (
    NOTHING,
    PREFIX,
    Asking,
    Chosen,
    Header,
    ModelSplit,
    identity_of,
    in_force,
    point,
    slot_of,
)
from tidegate.domain.topology import Topology
from tidegate.domain.wire import CANARY_HEADER, VERSION_HEADER
from tidegate.store.nudged import Nudged
from tidegate.store.ports import Acts, DecisionLog, Nudges, OperatorKeys

log = structlog.get_logger("ext_proc.splits")

SHOWN_CHARACTERS: Final = 100
_YES_OR_NO: Final = {"true": True, "false": False}


class SplitStore(OperatorKeys, DecisionLog, Acts, Nudges, Protocol):
    """What is followed."""


class SplitBook:
    """The split in force of each model that has one, and what became of its requests."""

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        self._clusters = [cluster.name for cluster in topology.clusters]
        self._splits = in_force(topology, {})
        self._tuned: Mapping[str, str] = {}
        self._live: set[str] = set()
        self.chosen: Counter[tuple[str, str]] = Counter()
        self.fallbacks: Counter[tuple[str, str]] = Counter()
        self._down: set[tuple[str, str]] = set()

    def __iter__(self) -> Iterator[ModelSplit]:
        return iter(self._splits.values())

    def of(self, model: str) -> ModelSplit | None:
        """The split of a model, by the name that no alias stands for."""
        return self._splits.get(model)

    def apply(self, tuned: Mapping[str, str]) -> None:
        """Put in force what the controller accepted: `split:{model}` → `stable=990 canary=10`."""
        if tuned != self._tuned:
            self._tuned, self._live = tuned, {key for key in tuned if key.startswith(PREFIX)}
            self._splits = in_force(self._topology, tuned)

    async def follow(self, store: SplitStore, nudged: Nudged, tick_seconds: float) -> None:
        """Read each tick, and at once on a word that something was decided. Raises a StoreError where the store fails.

        What is in force stays then.
        """
        while True:
            tuned = await self._read(store)
            if self._live - tuned.keys():
                tuned = await self._after_a_loss(store, tuned)
            self.apply(tuned)
            await nudged.within(tick_seconds)

    async def _read(self, store: SplitStore) -> Mapping[str, str]:
        """What the controller accepted, and the splits of acts where there is none of an operator."""
        tuned = (await store.operator_keys((), ())).tuned
        return with_splits(tuned, await store.effects(), self._topology.split_models)

    async def _after_a_loss(self, store: SplitStore, tuned: Mapping[str, str]) -> Mapping[str, str]:
        """A split that was in force is gone: it was cleared, or the store was emptied and everything stays.

        One without any weight was emptied. Weights come back last, so they are read first.
        """
        if any((await store.effective(self._clusters)).values()):
            return await self._read(store)
        return {**self._tuned, **tuned}

    @property
    def down(self) -> list[tuple[str, str]]:
        """Models and versions that a request was meant for and that served nobody then, nor any request since."""
        return sorted(self._down)

    def went(self, model: str, chosen: Chosen) -> None:
        """A request meets that version."""
        self.chosen[model, chosen.version] += 1
        if chosen.instead_of is not None:
            self.fallbacks[model, chosen.instead_of] += 1
            self._lacks(model, chosen.instead_of, "a version serves nobody; its users go to the others")
        if not chosen.serves:
            self._lacks(model, chosen.version, "a version serves nobody, and no other takes its users")
        elif self._down and (model, chosen.version) in self._down:
            self._down.discard((model, chosen.version))
            log.info("a version serves again", model=model, version=chosen.version)

    def _lacks(self, model: str, version: str, what: str) -> None:
        if (model, version) not in self._down:
            self._down.add((model, version))
            log.warning(what, model=model, version=version)


@dataclass(frozen=True, slots=True)
class Caller:
    """Who sends a request. `header` gives a header by its lower-case name, `address` is the client's `ip:port`."""

    user: str | None
    header: Header
    address: str | None = None


class Versions:
    """Decides versions. `serves` tells whether a cluster serves anybody, `rng` gives 64 random bits.

    `user_header` is the one that the file takes for a user's name; `by_name` lets clients name a version.
    """

    def __init__(
        self,
        book: SplitBook,
        serves: Callable[[str], bool],
        rng: Callable[[], int],
        *,
        user_header: str | None = None,
        by_name: bool = True,
    ) -> None:
        self._book, self._serves, self._rng = book, serves, rng
        self._user_header, self._by_name = user_header, by_name

    def split(self, model: str | None) -> ModelSplit | None:
        """The split of a model that is in force."""
        return None if model is None else self._book.of(model)

    def asking(self, split: ModelSplit | None, header: Header) -> Asking:
        """What the headers ask for. Raises Refusal (invalid-request) for a version that the model does not have.

        A model without a split has no versions: there the headers say nothing.
        """
        if split is None:
            return NOTHING
        version = header(VERSION_HEADER) if self._by_name else None
        canary = header(CANARY_HEADER) if split.canary else None
        if version is not None and version not in split.versions:
            raise _no_such_version(split.model, version)
        return Asking(version, _yes_or_no(canary or ""))

    def choose(self, split: ModelSplit, caller: Caller, asking: Asking = NOTHING) -> str:
        """The cluster that the request goes to, counted."""
        chosen = split.choose(self._number(split.salt, caller), self._serves, asking)
        self._book.went(split.model, chosen)
        return chosen.version

    def within(self, rule: RouteRule, caller: Caller) -> bool:
        """Whether a rule for a share of users is for this one. A user whom it is for stays so while it grows."""
        if rule.share_permille is None:
            return True
        salt = f"rule {rule.match.model or ''} {rule.cluster}"
        return slot_of(self._number(salt, caller)) < rule.share_permille

    def silent(self) -> list[tuple[str, str]]:
        """Models and versions that requests were meant for, and that serve nobody still: what the beat tells."""
        return [(model, version) for model, version in self._book.down if not self._serves(version)]

    def _number(self, salt: str, caller: Caller) -> int:
        identity = identity_of(caller.user, caller.header, self._user_header, caller.address)
        return self._rng() if identity is None else point(identity, salt)


def _yes_or_no(text: str) -> bool | None:
    """What a header says that may be sent more than once; None where that is neither, or both."""
    words = {word.strip().lower() for word in text.split(",")}
    return _YES_OR_NO.get(words.pop()) if len(words) == 1 else None


def _no_such_version(model: str, version: str) -> Refusal:
    shown = version if len(version) <= SHOWN_CHARACTERS else version[:SHOWN_CHARACTERS] + "…"
    if not shown.isprintable():
        shown = "that"
    return Refusal(Reason.INVALID_REQUEST, f"The model `{model}` has no version `{shown}`.")


class SplitMetrics(Collector):
    """Shares and what was sent by them. Labels are models and clusters of the file."""

    def __init__(self, registry: CollectorRegistry, book: SplitBook) -> None:
        self._book = book
        registry.register(self)

    def collect(self) -> Iterator[Metric]:
        labels: Sequence[str] = ("model", "version")
        share = GaugeMetricFamily("tidegate_ext_proc_split_permille", "Share of a version in force", labels=labels)
        for split in self._book:
            for version, parts in split.parts:
                share.add_metric([split.model, version], parts)
        yield share
        chosen = CounterMetricFamily("tidegate_ext_proc_split_requests", "Requests of a version", labels=labels)
        for names, count in self._every(self._book.chosen):
            chosen.add_metric(names, count)
        yield chosen
        lost = CounterMetricFamily(
            "tidegate_ext_proc_split_fallbacks", "Requests meant for a version that served nobody", labels=labels
        )
        for names, count in self._every(self._book.fallbacks):
            lost.add_metric(names, count)
        yield lost

    def _every(self, counted: Counter[tuple[str, str]]) -> Iterable[tuple[tuple[str, str], int]]:
        """What was counted, and 0 for the versions in force of which nothing was: a rate needs a series to begin at."""
        return {**{(split.model, name): 0 for split in self._book for name, _ in split.parts}, **counted}.items()
