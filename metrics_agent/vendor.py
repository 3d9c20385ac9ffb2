"""What a row of the vendor table can say. `vendors` fills it in, `scrape.reading` follows it."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from enum import Enum
from typing import Any


class Fold(Enum):
    """How several series of one family (engines, data-parallel ranks, stages) become one number."""

    SUM = "sum"
    MAX = "max"
    MIN = "min"
    MEAN = "mean"


Where = tuple[bytes, bytes]
"""One label and the value it must have."""


@dataclass(frozen=True, slots=True)
class Gauge:
    """A number on the page. `added` families join the sum where they exist; `where` picks series by one label."""

    family: bytes
    fold: Fold = Fold.SUM
    added: tuple[bytes, ...] = ()
    where: Where | None = None


@dataclass(frozen=True, slots=True)
class Counter:
    """A number that only grows, until its engine restarts."""

    family: bytes
    where: Where | None = None


@dataclass(frozen=True, slots=True)
class CacheInfo:
    """A family whose labels tell the KV cache's sizes: labels of each, the first that holds a number wins."""

    family: bytes
    block_size: tuple[str, ...]
    blocks: str
    tokens: str


@dataclass(frozen=True, slots=True)
class Adapters:
    """A family with one series for each set of LoRA adapters ever in flight; its value is when, in Unix seconds."""

    family: bytes
    lists: tuple[str, ...]
    most: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Vendor:
    """Names of one engine. Of several families for one thing the first that the page has wins.

    `prefix` starts the families that only this engine has. `page` is the path of its metrics, on `port` of the
    engine's host (None: the engine's own); `health` answers 200 when it serves; `models` lists the served names.

    `running` and `waiting` count requests; `kv_used` and `hit_ratio` are ratios; `capacity` is in tokens, or is the
    product of `blocks` and `block_size` (tokens); `cache_info` tells the same by labels. `latency` and
    `first_token` are histograms in seconds, without their `_bucket`, of whole requests and of the time to the first
    token; `generated` counts output tokens; `prompts` pairs (prompt tokens, prompts), both counted at the same
    moment of a request; `finished` pairs (output tokens, requests that ended); `prefix_cache` pairs (queries, hits);
    `rejected` counts requests that were not admitted.

    `repeats` are labels along which series tell one thing again: tensor- and pipeline-parallel ranks share a
    scheduler, processes (`pid`) report the same engine. Their greatest value stands for all. Where `total` is a
    label that is empty on one series and not on others, the others are its parts and count nothing.
    """

    name: str
    prefix: bytes
    page: str = "/metrics"
    port: int | None = None
    health: str = "/health"
    models: str = "/v1/models"
    running: tuple[Gauge, ...] = ()
    waiting: tuple[Gauge, ...] = ()
    kv_used: tuple[Gauge, ...] = ()
    hit_ratio: tuple[Gauge, ...] = ()
    awake: tuple[Gauge, ...] = ()
    capacity: tuple[Gauge, ...] = ()
    blocks: tuple[Gauge, ...] = ()
    block_size: tuple[Gauge, ...] = ()
    latency: tuple[bytes, ...] = ()
    first_token: tuple[bytes, ...] = ()
    generated: tuple[Counter, ...] = ()
    prompts: tuple[tuple[Counter, Counter], ...] = ()
    finished: tuple[tuple[Counter, Counter], ...] = ()
    prefix_cache: tuple[tuple[Counter, Counter], ...] = ()
    rejected: tuple[Counter, ...] = ()
    cache_info: CacheInfo | None = None
    adapters: Adapters | None = None
    model_label: str = "model_name"
    repeats: frozenset[str] = frozenset({"pid"})
    total: str | None = None

    def families(self) -> frozenset[bytes]:
        """Every name that may stand at the start of a line worth reading."""
        return frozenset(name for field in fields(self) for name in _names(field.name, getattr(self, field.name)))


def _names(field: str, value: Any) -> list[bytes]:
    """The family names in one field of a row."""
    if isinstance(value, Gauge):
        return [value.family, *value.added]
    if isinstance(value, Counter | CacheInfo | Adapters):
        return [value.family]
    if isinstance(value, tuple):
        return [name for one in value for name in _names(field, one)]
    return [value + b"_bucket"] if field in {"latency", "first_token"} else []


def renamed(vendor: Vendor, name: str, old: bytes, new: bytes, **changes: Any) -> Vendor:
    """The same engine behind something that renames its families: `old` at their start becomes `new`."""
    swapped = {field.name: _swap(getattr(vendor, field.name), old, new) for field in fields(vendor)}
    return replace(vendor, **{**swapped, "name": name, **changes})


def _swap(value: Any, old: bytes, new: bytes) -> Any:
    if isinstance(value, bytes):
        return new + value[len(old) :] if value.startswith(old) else value
    if isinstance(value, tuple):
        return tuple(_swap(one, old, new) for one in value)
    if isinstance(value, Gauge | Counter | CacheInfo | Adapters):
        return replace(value, **{field.name: _swap(getattr(value, field.name), old, new) for field in fields(value)})
    return value
