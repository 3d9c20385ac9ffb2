"""Reports of the outcomes service in a hash, and back.

cluster:{cluster}   MessagePack of {replica: [span_ms, counts, retries, received_bytes, sent_bytes, ttfb bins,
                    total bins, engine bins, counts ever]}; counts in the order of `ending.ENDINGS`, bins as
                    `sketch.Sketch.bins` draws them
versions:{model}    MessagePack of {cluster: [counts, total bins, counts ever, total bins ever]}
run                 names this life of the instance
model:{model}       MessagePack of [[six counts of 5 minutes], [six of 1 hour]], as `slo.Counts` names them
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeVar

import msgspec

from tidegate.domain.outcomes.ending import ENDINGS
from tidegate.domain.outcomes.report import Report
from tidegate.domain.outcomes.slo import Spans
from tidegate.domain.outcomes.tally import Told
from tidegate.domain.outcomes.version import VersionTold
from tidegate.store.fields import text

T = TypeVar("T")

RUN: Final = "run"

_encoder: Final = msgspec.msgpack.Encoder()
_replicas: Final = msgspec.msgpack.Decoder(dict[str, Told])
_versions: Final = msgspec.msgpack.Decoder(dict[str, VersionTold])
_spans: Final = msgspec.msgpack.Decoder(Spans)


def encode_report(report: Report) -> dict[str, bytes]:
    """Fields of `outcomes:{instance}`."""
    clusters = {cluster_field(name): _encoder.encode(replicas) for name, replicas in report.clusters.items()}
    models = {model_field(name): _encoder.encode(spans) for name, spans in report.models.items()}
    versions = {versions_field(name): _encoder.encode(one) for name, one in report.versions.items()}
    return {**clusters, **models, **versions, **({RUN: report.run.encode()} if report.run else {})}


def fields(clusters: Sequence[str], models: Sequence[str], versions: Sequence[str]) -> list[str]:
    """What to read for these, in the order in which `decode_report` takes it; nothing for nothing."""
    named = [*map(cluster_field, clusters), *map(model_field, models), *map(versions_field, versions)]
    return [*named, RUN] if named else []


def cluster_field(cluster: str) -> str:
    """The field of a cluster."""
    return f"cluster:{cluster}"


def model_field(model: str) -> str:
    """The field of a model."""
    return f"model:{model}"


def versions_field(model: str) -> str:
    """The field of a model's versions."""
    return f"versions:{model}"


def decode_report(
    clusters: Sequence[str], models: Sequence[str], versions: Sequence[str], values: Sequence[Any]
) -> Report:
    """The report out of the fields that `fields` lists; what is no such thing is left out."""
    rest = iter(values)
    told = [(name, _decoded(_replicas, next(rest))) for name in clusters]
    spans = [(name, _decoded(_spans, next(rest))) for name in models]
    found = [(name, _decoded(_versions, next(rest))) for name in versions]
    run = next(rest, None)
    return Report(
        {name: _sound(one) for name, one in told if one is not None},
        {name: one for name, one in spans if one is not None},
        {name: {c: v for c, v in one.items() if v.sound} for name, one in found if one is not None},
        text(run) if isinstance(run, bytes) else "",
    )


def _decoded(decoder: msgspec.msgpack.Decoder[T], raw: Any) -> T | None:
    try:
        return decoder.decode(raw) if isinstance(raw, bytes) else None
    except (msgspec.DecodeError, UnicodeError):
        return None


def _sound(replicas: Mapping[str, Told]) -> dict[str, Told]:
    return {replica: told for replica, told in replicas.items() if len(told.counts) == len(told.ever) == len(ENDINGS)}
