"""Protobuf's wrappers: Any, wrapped scalars and durations."""

from __future__ import annotations

from typing import Any

from google.protobuf import any_pb2, duration_pb2, wrappers_pb2

UInt32 = wrappers_pb2.UInt32Value
Bool = wrappers_pb2.BoolValue


def packed(message: Any) -> any_pb2.Any:
    """The message as an Any, with deterministic bytes."""
    wrapped = any_pb2.Any()
    wrapped.Pack(message, deterministic=True)
    return wrapped


def seconds(value: float) -> duration_pb2.Duration:
    """A duration, exact to the nanosecond."""
    whole, rest = divmod(round(value * 1_000_000_000), 1_000_000_000)
    return duration_pb2.Duration(seconds=whole, nanos=rest)
