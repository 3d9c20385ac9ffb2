"""Reports of the outcomes service in a hash, and back.

cluster:{cluster}   MessagePack of {replica: [span_ms, counts, retries, received_bytes, sent_bytes, ttfb bins,
                    total bins, engine bins, counts ever]}; counts in the order of `ending.ENDINGS`, bins as
                    `sketch.Sketch.bins` draws them
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

T = TypeVar("T")

_encoder: Final = msgspec.msgpack.Encoder()
_replicas: Final = msgspec.msgpack.Decoder(dict[str, Told])
_spans: Final = msgspec.msgpack.Decoder(Spans)


def encode_report(report: Report) -> dict[str, bytes]:
    """Fields of `outcomes:{instance}`."""
    clusters = {cluster_field(name): _encoder.encode(replicas) for name, replicas in report.clusters.items()}
    return clusters | {model_field(name): _encoder.encode(spans) for name, spans in report.models.items()}


def cluster_field(cluster: str) -> str:
    """The field of a cluster."""
    return f"cluster:{cluster}"


def model_field(model: str) -> str:
    """The field of a model."""
    return f"model:{model}"


def decode_report(clusters: Sequence[str], models: Sequence[str], values: Sequence[Any]) -> Report:
    """The report out of the fields of these clusters, then of these models; what is no such thing is left out."""
    told = [_decoded(_replicas, raw) for raw in values[: len(clusters)]]
    spans = [_decoded(_spans, raw) for raw in values[len(clusters) :]]
    return Report(
        {name: _sound(one) for name, one in zip(clusters, told, strict=True) if one is not None},
        {name: one for name, one in zip(models, spans, strict=True) if one is not None},
    )


def _decoded(decoder: msgspec.msgpack.Decoder[T], raw: Any) -> T | None:
    try:
        return decoder.decode(raw) if isinstance(raw, bytes) else None
    except (msgspec.DecodeError, UnicodeError):
        return None


def _sound(replicas: Mapping[str, Told]) -> dict[str, Told]:
    return {replica: told for replica, told in replicas.items() if len(told.counts) == len(told.ever) == len(ENDINGS)}
