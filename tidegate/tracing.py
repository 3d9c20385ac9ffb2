"""Spans of this process, and where they go. Imports nothing of OpenTelemetry; `tidegate.otlp` does, once it is needed.

A span is made when it has ended, from times that were taken anyway: what is not sampled costs a comparison, and what is
sampled a few microseconds and a place in a bounded queue. A thread exports it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from random import getrandbits
from typing import Protocol

from prometheus_client import CollectorRegistry

from tidegate.domain.trace_context import TraceContext
from tidegate.settings.otlp_url import parse_otlp_url

Value = str | int | float | bool | Sequence[str]
"""What an attribute may be."""


class Kind(Enum):
    """SERVER: what another process asked for; INTERNAL: a part of that."""

    SERVER = auto()
    INTERNAL = auto()


@dataclass(slots=True, kw_only=True)
class Span:
    """What happened between two moments, in nanoseconds since 1970. `error` is how a failure is called.

    A span without a parent begins its trace.
    """

    name: str
    context: TraceContext
    parent: TraceContext | None
    start_ns: int
    end_ns: int
    kind: Kind = Kind.INTERNAL
    attributes: Mapping[str, Value] = field(default_factory=dict)
    error: str | None = None


class Spans(Protocol):
    """Takes spans of sampled traces."""

    def record(self, span: Span) -> None:
        """Take a span that has ended. Never blocks and never raises; what there is no room for is dropped."""

    async def stop(self) -> None:
        """Export what is there, within a bound of seconds."""


def child_of(parent: TraceContext) -> TraceContext:
    """A new span of the same trace."""
    return TraceContext(parent.trace_id, getrandbits(64) or 1, parent.sampled)


def open_spans(
    endpoint: str | None, protocol: str, service: str, instance: str, registry: CollectorRegistry
) -> Spans | None:
    """Where spans of `service` go; None without an endpoint, and then nothing of OpenTelemetry is imported.

    `instance` tells this process from others of its service. Raises ValueError as `parse_otlp_url` does.
    """
    if endpoint is None:
        return None
    from tidegate.otlp.spans import OtlpSpans  # noqa: PLC0415 - a quarter of a second that only traces are worth

    return OtlpSpans(parse_otlp_url(endpoint, protocol), protocol, service, instance, registry)
