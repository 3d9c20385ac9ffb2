"""What one page says, in Tidegate's words. Unknown is None: a NaN, a negative count and an absent family alike."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from metrics_agent.scrape.exposition import Series, bucket_of, labels_of, scan
from metrics_agent.vendors import VENDORS, WANTED, Fold, Gauge, Vendor

RATIO_SLACK: Final = 0.01

Found = Mapping[bytes, Sequence[Series]]
Counters = Mapping[bytes, float]
Histograms = Mapping[bytes, Mapping[float, float]]
FOLDS: Final[Mapping[Fold, Callable[[Iterable[float]], float]]] = {
    Fold.SUM: sum,
    Fold.MAX: max,
    Fold.MIN: min,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One page. Counters and histograms are cumulative, by the label text of their series.

    `vendor` is None when no engine's families are on the page: reachable, and nothing known.
    """

    vendor: str | None = None
    running: int | None = None
    waiting: int | None = None
    kv_used_ratio: float | None = None
    kv_capacity_tokens: int | None = None
    block_size: int | None = None
    awake: bool | None = None
    models: tuple[str, ...] = ()
    prompt_tokens: int | None = None
    prompts: int | None = None
    latency: Histograms = field(default_factory=dict)
    generated: Counters = field(default_factory=dict)
    prefix_queries: Counters = field(default_factory=dict)
    prefix_hits: Counters = field(default_factory=dict)


def read_page(page: bytes) -> Reading:
    """Read a page of any known engine. Never raises: what cannot be read is unknown."""
    found = scan(page, WANTED)
    vendor = next((v for v in VENDORS if any(name.startswith(v.prefix) for name in found)), None)
    if vendor is None:
        return Reading()
    queries, hits = _pair(vendor.prefix_cache, found)
    prompt_tokens, prompts = map(_total, _pair(vendor.prompts, found))
    block_size, capacity = _cache(found.get(vendor.cache_info or b"", ()))
    awake = _number(vendor.awake, found)
    return Reading(
        vendor=vendor.name,
        running=_count(vendor.running, found),
        waiting=_count(vendor.waiting, found),
        kv_used_ratio=_ratio(_number(vendor.kv_used, found)),
        kv_capacity_tokens=capacity,
        block_size=block_size,
        awake=None if awake is None else awake > 0,
        models=_models(vendor, found),
        prompt_tokens=prompt_tokens,
        prompts=prompts,
        latency=_histograms(vendor, found),
        generated=_counters(next((found[n] for n in vendor.generated if n in found), ())),
        prefix_queries=queries,
        prefix_hits=hits,
    )


def _number(gauges: Sequence[Gauge], found: Found) -> float | None:
    """The first gauge that the page has, folded; None when one of its series is unknown."""
    for gauge in gauges:
        series = [s for s in found.get(gauge.family, ()) if _matches(s, gauge.where)]
        if series:
            values = [s.value for s in series]
            values += [s.value for name in gauge.added for s in found.get(name, ())]
            known = all(math.isfinite(value) and value >= 0 for value in values)
            return FOLDS[gauge.fold](values) if known else None
    return None


def _matches(series: Series, where: tuple[bytes, bytes] | None) -> bool:
    return where is None or labels_of(series).get(where[0].decode()) == where[1].decode()


def _count(gauges: Sequence[Gauge], found: Found) -> int | None:
    value = _number(gauges, found)
    return None if value is None else round(value)


def _ratio(value: float | None) -> float | None:
    """A ratio a hair above 1 is 1; anything larger is no ratio."""
    return None if value is None or value > 1.0 + RATIO_SLACK else min(1.0, value)


def _models(vendor: Vendor, found: Found) -> tuple[str, ...]:
    label = vendor.model_label.decode()
    series = next((found[g.family] for g in vendor.running if g.family in found), ())
    names = (labels_of(s).get(label) for s in series)
    return tuple(dict.fromkeys(name for name in names if name))


def _counters(series: Iterable[Series]) -> dict[bytes, float]:
    return {s.labels: s.value for s in series if math.isfinite(s.value) and s.value >= 0}


def _pair(families: Iterable[tuple[bytes, bytes]], found: Found) -> tuple[Counters, Counters]:
    """Two counters that say something only together: the first pair that the page has."""
    for one, other in families:
        if one in found and other in found:
            return _counters(found[one]), _counters(found[other])
    return {}, {}


def _total(counters: Counters) -> int | None:
    return round(sum(counters.values())) if counters else None


def _histograms(vendor: Vendor, found: Found) -> Histograms:
    lines = next((found[n + b"_bucket"] for n in vendor.latency if n + b"_bucket" in found), ())
    by_series: dict[bytes, dict[float, float]] = {}
    for line in lines:
        bucket = bucket_of(line)
        if bucket is not None and math.isfinite(line.value):
            by_series.setdefault(bucket[0], {})[bucket[1]] = line.value
    return by_series


def _cache(series: Iterable[Series]) -> tuple[int | None, int | None]:
    """Block size and KV capacity in tokens, from the labels of cache_config_info; capacities of engines add up.

    Hybrid models show the smallest group's block size, and blocks x size is not their capacity: the attention
    block size and `kv_cache_size_tokens` win where the engine tells them.
    """
    block_size: int | None = None
    capacities: list[int | None] = []
    for labels in map(labels_of, series):
        plain = _whole(labels.get("block_size"))
        block_size = block_size or _whole(labels.get("effective_attention_block_size")) or plain
        blocks = _whole(labels.get("num_gpu_blocks"))
        product = plain * blocks if plain and blocks else None
        capacities.append(_whole(labels.get("kv_cache_size_tokens")) or product)
    known = [capacity for capacity in capacities if capacity is not None]
    return block_size, sum(known) if known and len(known) == len(capacities) else None


def _whole(text: str | None) -> int | None:
    """A positive whole number of at most 18 digits; vLLM writes "None" for what it does not know yet."""
    plain = text is not None and text.isascii() and text.isdigit() and len(text) <= 18
    return int(text) or None if plain and text else None
