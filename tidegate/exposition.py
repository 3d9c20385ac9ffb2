"""A registry as a page: in the format and the encoding that the scraper asks for, or as values for another process."""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import msgspec
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, choose_encoder, generate_latest, gzip_accepted
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from prometheus_client.samples import Exemplar, Sample

from tidegate.open_metrics import open_metrics

OPEN_METRICS: Final = "application/openmetrics-text"
FAST: Final = 1
"""gzip's level: a page is mostly names that repeat, which every level finds."""


@dataclass(frozen=True, slots=True)
class Page:
    """What goes over the wire."""

    body: bytes
    headers: dict[str, str]


def page_of(source: Collector, accept: str | None, accept_encoding: str | None) -> Page:
    """OpenMetrics, which has exemplars, where `accept` names it before any other that we write; else the text format.

    An `accept` that cannot be read gets the text format, as one that is missing does.
    """
    try:
        encode, content_type = choose_encoder(accept or "")
    except (TypeError, ValueError):  # a version that is no number
        encode, content_type = generate_latest, CONTENT_TYPE_PLAIN_0_0_4
    better = content_type.startswith(OPEN_METRICS)
    body, headers = (
        open_metrics(source.collect()) if better else encode(source),
        {"Content-Type": content_type, "Vary": "Accept, Accept-Encoding"},
    )
    if not gzip_accepted(accept_encoding or ""):
        return Page(body, headers)
    return Page(gzip.compress(body, FAST), {**headers, "Content-Encoding": "gzip"})


class Collected(Collector):
    """Families as they were at one moment, for whoever writes them down elsewhere."""

    def __init__(self, source: Collector) -> None:
        self.families = list(source.collect())

    @property
    def series(self) -> int:
        """How many there are."""
        return sum(len(family.samples) for family in self.families)

    def collect(self) -> Iterator[Metric]:
        yield from self.families


class Families(Collector):
    """A registry without the times at which its series began: those would double the page, and nobody asks for them."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry

    def collect(self) -> Iterator[Metric]:
        for family in self._registry.collect():
            if family.type in {"counter", "histogram", "summary"}:
                family.samples = [one for one in family.samples if not one.name.endswith("_created")]
            if not family.name.endswith("_created"):
                yield family


class Series(msgspec.Struct, array_like=True, frozen=True):
    """One sample on its way to another process. `exemplar` is labels, value and Unix time in seconds."""

    name: str
    labels: dict[str, str]
    value: float
    exemplar: tuple[dict[str, str], float, float | None] | None = None


class Told(msgspec.Struct, array_like=True, frozen=True):
    """One family on its way to another process."""

    name: str
    documentation: str
    type: str
    series: list[Series]


class Life(msgspec.Struct, array_like=True, frozen=True):
    """All that a process counted in its life; `name` is another one after each start."""

    name: str
    families: list[Told]


def life_of(name: str, source: Collector) -> Life:
    """What a registry holds, under this name of a life."""
    return Life(name, [_told(family) for family in source.collect()])


def encode_life(life: Life) -> bytes:
    """MessagePack, which knows infinities, and needs no parser of pages on the other side."""
    return msgspec.msgpack.encode(life)


def decode_life(data: bytes) -> Life | None:
    """What `encode_life` gave; None for anything else."""
    try:
        return msgspec.msgpack.decode(data, type=Life)
    except msgspec.DecodeError:
        return None


def _told(family: Metric) -> Told:
    series = [Series(one.name, one.labels, one.value, _plain(one.exemplar)) for one in family.samples]
    return Told(family.name, family.documentation, family.type, series)


def _plain(exemplar: Exemplar | None) -> tuple[dict[str, str], float, float | None] | None:
    if exemplar is None:
        return None
    at = exemplar.timestamp
    return exemplar.labels, exemplar.value, None if at is None else float(at)


def metric(name: str, documentation: str, kind: str, series: Iterable[Series]) -> Metric:
    """The family as the client library writes it."""
    family = Metric(name, documentation, kind)
    family.samples = [
        Sample(one.name, one.labels, one.value, None, Exemplar(*one.exemplar) if one.exemplar else None)
        for one in series
    ]
    return family
