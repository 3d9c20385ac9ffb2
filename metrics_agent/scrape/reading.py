"""What one page says, in Tidegate's words. Unknown is None: a NaN, a negative count and an absent family alike."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from statistics import fmean
from typing import Final

from metrics_agent.scrape.exposition import (
    LABEL_SETS_REMEMBERED,
    LARGEST_VALUE,
    UNREAD,
    Scanner,
    Series,
    histograms_of,
    labels_of,
)
from metrics_agent.vendor import Adapters, CacheInfo, Counter, Fold, Gauge, Vendor, Where
from metrics_agent.vendors import VENDORS, WANTED

RATIO_SLACK: Final = 0.01
ENGINE_LABELS: Final = frozenset({"engine", "dp_rank", "WorkerId"})
"""Labels that tell engines apart and that every family of one has; stages are told by some families alone."""

Found = Mapping[bytes, Sequence[Series]]
Key = frozenset[tuple[str, str]]
Counters = Mapping[Key, float]
Histograms = Mapping[bytes, Mapping[float, float]]
FOLDS: Final[Mapping[Fold, Callable[[Iterable[float]], float]]] = {
    Fold.SUM: sum,
    Fold.MAX: max,
    Fold.MIN: min,
    Fold.MEAN: fmean,
}

_scan: Final = Scanner(WANTED).scan
_scan_numbers: Final = Scanner(name for name in WANTED if not name.endswith(b"_bucket")).scan


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One page. Counters and histograms are cumulative, by series; `loras` are the adapters in flight.

    `vendor` is None when no engine's families are on the page: reachable, and nothing known. `unread` counts families
    of so many series that they were not read: what they tell is unknown.
    """

    vendor: str | None = None
    unread: int = 0
    running: int | None = None
    waiting: int | None = None
    kv_used_ratio: float | None = None
    kv_capacity_tokens: int | None = None
    block_size: int | None = None
    awake: bool | None = None
    hit_ratio: float | None = None
    models: tuple[str, ...] = ()
    loras: tuple[str, ...] = ()
    max_loras: int | None = None
    prompt_tokens: int | None = None
    prompts: int | None = None
    rejected: int | None = None
    generated_tokens: int | None = None
    finished: int | None = None
    latency: Histograms = field(default_factory=dict)
    first_token: Histograms = field(default_factory=dict)
    generated: Counters = field(default_factory=dict)
    prefix_queries: Counters = field(default_factory=dict)
    prefix_hits: Counters = field(default_factory=dict)


def read_page(page: bytes, now_seconds: float, pinned: Vendor | None = None, *, histograms: bool = True) -> Reading:
    """Read a page of any known engine, or of the `pinned` one. Never raises: what cannot be read is unknown.

    `now_seconds` is Unix time: LoRA series are dated. Without `histograms`, most of a page's cost, none is read.
    """
    found = _scan(page) if histograms else _scan_numbers(page)
    vendor = next((v for v in ((pinned,) if pinned else VENDORS) if _shows(v, found)), None)
    return Reading() if vendor is None else _Page(vendor, found).reading(now_seconds)


def _shows(vendor: Vendor, found: Found) -> bool:
    return any(name.startswith(vendor.prefix) for name in found)


@dataclass(frozen=True, slots=True)
class _Page:
    """The wanted series of one page of one engine."""

    vendor: Vendor
    found: Found
    engines: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "engines", self.count_engines())

    def reading(self, now_seconds: float) -> Reading:
        vendor = self.vendor
        queries, hits = self.pair(vendor.prefix_cache)
        prompt_tokens, prompts = map(_total, self.pair(vendor.prompts))
        generated_tokens, finished = map(_total, self.pair(vendor.finished))
        block_size, capacity = self.cache()
        awake = self.number(vendor.awake)
        loras, max_loras = _adapters(vendor.adapters, self.found, now_seconds)
        return Reading(
            vendor=vendor.name,
            unread=sum(series is UNREAD for series in self.found.values()),
            running=_count(self.number(vendor.running)),
            waiting=_count(self.number(vendor.waiting)),
            kv_used_ratio=_ratio(self.number(vendor.kv_used)),
            kv_capacity_tokens=capacity,
            block_size=block_size,
            awake=None if awake is None else awake > 0,
            hit_ratio=_ratio(self.number(vendor.hit_ratio)),
            models=self.models(),
            loras=loras,
            max_loras=max_loras,
            prompt_tokens=prompt_tokens,
            prompts=prompts,
            rejected=_total(self.counters(vendor.rejected)),
            generated_tokens=generated_tokens,
            finished=finished,
            latency=self.histograms(vendor.latency),
            first_token=self.histograms(vendor.first_token),
            generated=self.counters(vendor.generated),
            prefix_queries=queries,
            prefix_hits=hits,
        )

    def number(self, gauges: Sequence[Gauge]) -> float | None:
        """The first gauge that the page has, folded; None when a series is unknown or an engine's is absent."""
        for gauge in gauges:
            by_key = self.values(gauge.family, gauge.where)
            if by_key:
                values = [*by_key.values(), *(v for name in gauge.added for v in self.values(name).values())]
                return FOLDS[gauge.fold](values) if _known(values) and self.is_whole(by_key) else None
        return None

    def is_whole(self, keys: Iterable[Key]) -> bool:
        """Whether series with these labels tell of every engine that the queues tell of. A part is not the whole."""
        engines = set(map(_engine, keys))
        return engines == {NO_ENGINE} or len(engines) >= self.engines

    def count_engines(self) -> int:
        """How many engines the page tells of, by its queues."""
        return max(len(set(map(_engine, self.first(gauges)))) for gauges in (self.vendor.running, self.vendor.waiting))

    def values(self, family: bytes, where: Where | None = None) -> dict[Key, float]:
        """Values by labels, without `where` and without what only repeats: of those the greatest stands for all."""
        values: dict[Key, float] = {}
        for text, value in self.series(family):
            key = _key(text, self.vendor.repeats, where)
            if key is not None:
                before = values.get(key)
                # NaN stays: a repeat that says nothing leaves the number unknown.
                values[key] = value if before is None or value > before or math.isnan(value) else before
        return values

    def series(self, family: bytes) -> Sequence[Series]:
        """The family's series; only its totals where some of them are parts."""
        series, whole = self.found.get(family, ()), self.vendor.total
        totals = [one for one in series if not labels_of(one[0]).get(whole)] if whole is not None else ()
        return totals or series

    def counters(self, counters: Sequence[Counter]) -> Counters:
        for counter in counters:
            values = self.values(counter.family, counter.where)
            if values:
                return {key: value for key, value in values.items() if _known([value])}
        return {}

    def pair(self, families: Iterable[tuple[Counter, Counter]]) -> tuple[Counters, Counters]:
        """Two counters that say something only together: the first pair that the page has."""
        for pair in families:
            one, other = (self.counters((counter,)) for counter in pair)
            if one and other:
                return one, other
        return {}, {}

    def histograms(self, families: Iterable[bytes]) -> Histograms:
        """Cumulative counts by upper bound, by series. A series without its bucket +Inf is not whole: left out."""
        lines = next((self.found[n + b"_bucket"] for n in families if n + b"_bucket" in self.found), ())
        return {key: bounds for key, bounds in histograms_of(lines).items() if math.inf in bounds}

    def models(self) -> tuple[str, ...]:
        series = next((self.found[g.family] for g in self.vendor.running if g.family in self.found), ())
        names = (labels_of(text).get(self.vendor.model_label) for text, _ in series)
        return tuple(dict.fromkeys(name for name in names if name))

    def cache(self) -> tuple[int | None, int | None]:
        """Block size and KV capacity in tokens; capacities of engines add up."""
        block_size, capacity = _cache_info(self.vendor, self.found, self.engines)
        sizes, blocks = self.first(self.vendor.block_size), self.first(self.vendor.blocks)
        plain = {size for size in sizes.values() if _known([size]) and size > 0}
        products = [blocks[key] * sizes.get(key, math.nan) for key in blocks]
        told = _count(self.number(self.vendor.capacity))
        product = _count(sum(products)) if products and _known(products) and self.is_whole(blocks) else None
        return block_size or (int(min(plain)) if plain else None), told or product or capacity

    def first(self, gauges: Sequence[Gauge]) -> dict[Key, float]:
        return next((values for g in gauges if (values := self.values(g.family, g.where))), {})


@lru_cache(LABEL_SETS_REMEMBERED)
def _key(text: bytes, repeats: frozenset[str], where: Where | None) -> Key | None:
    """A series' labels but those; None when it is not one of `where`."""
    labels = labels_of(text)
    name, wanted = (where[0].decode(), where[1].decode()) if where else ("", None)
    if labels.get(name) != wanted:
        return None
    return frozenset(item for item in labels.items() if item[0] != name and item[0] not in repeats)


@lru_cache(LABEL_SETS_REMEMBERED)
def _engine(key: Key) -> Key:
    return frozenset(item for item in key if item[0] in ENGINE_LABELS)


NO_ENGINE: Final[Key] = frozenset()


def _known(values: Iterable[float]) -> bool:
    return all(0 <= value <= LARGEST_VALUE for value in values)  # nor NaN


def _count(value: float | None) -> int | None:
    return None if value is None or value > LARGEST_VALUE else round(value)


def _ratio(value: float | None) -> float | None:
    """A ratio a hair above 1 is 1; anything larger is no ratio."""
    return None if value is None or value > 1.0 + RATIO_SLACK else min(1.0, value)


def _total(counters: Counters) -> int | None:
    return _count(sum(counters.values())) if counters else None


def _cache_info(vendor: Vendor, found: Found, engines: int) -> tuple[int | None, int | None]:
    """Block size and capacity from labels; the capacity is unknown when not all `engines` tell theirs.

    An engine may show several states of its configuration: the best known.
    """
    info = vendor.cache_info
    if info is None:
        return None, None
    block_sizes: list[int] = []
    capacities: dict[str, int] = {}
    for text, _ in found.get(info.family, ()):
        labels = labels_of(text)
        engine = ",".join(labels.get(name, "") for name in ("engine", "stage", "replica", "dp_rank", "WorkerId"))
        block_size, capacity = _sizes(info, labels)
        block_sizes += [block_size] if block_size else []
        capacities[engine] = max(capacities.get(engine, 0), capacity)
    whole = len(capacities) >= max(1, engines) and all(capacities.values())
    return block_sizes[0] if block_sizes else None, _count(sum(capacities.values())) if whole else None


def _sizes(info: CacheInfo, labels: Mapping[str, str]) -> tuple[int, int]:
    """Block size and capacity of one series, 0 where unknown: blocks × size where the capacity is not told.

    A hybrid model's blocks are counted in its smallest size, which is the last of `block_size`.
    """
    sizes = [size for name in info.block_size if (size := _whole(labels.get(name)))]
    smallest = _whole(labels.get(info.block_size[-1]))
    return sizes[0] if sizes else 0, _whole(labels.get(info.tokens)) or smallest * _whole(labels.get(info.blocks))


def _whole(text: str | None) -> int:
    """A positive whole number of at most 15 digits, else 0; vLLM writes "None" for what it does not know yet."""
    plain = text is not None and text.isascii() and text.isdigit() and len(text) <= 15
    return int(text) if plain and text else 0


def _adapters(adapters: Adapters | None, found: Found, now_seconds: float) -> tuple[tuple[str, ...], int | None]:
    """The LoRA adapters in flight, and how many fit: from the newest series.

    Several API servers add their times up, so a value far past now is a sum: its mean dates it.
    """
    series = found.get(adapters.family, ()) if adapters else ()
    at, text = max(((_mean_time(value, now_seconds), text) for text, value in series), default=(0.0, b""))
    if adapters is None or not at:
        return (), None
    labels = labels_of(text)
    names = (name.strip() for part in adapters.lists for name in labels.get(part, "").split(","))
    return tuple(dict.fromkeys(name for name in names if name)), _whole(labels.get(adapters.most)) or None


def _mean_time(value: float, now_seconds: float) -> float:
    """When, in Unix seconds, at best; 0 for what is no time."""
    return value / max(1, round(value / now_seconds)) if math.isfinite(value) and value > 0 else 0.0
