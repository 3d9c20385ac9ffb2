"""Entries as a real Envoy 1.40 writes them, made by hand."""

from __future__ import annotations

from typing import Any

from envoy.data.accesslog.v3 import accesslog_pb2
from google.protobuf import duration_pb2

from tidegate.domain.outcomes.ending import Ending, Outcome


def after(milliseconds: float) -> duration_pb2.Duration:
    duration = duration_pb2.Duration()
    duration.FromNanoseconds(round(milliseconds * 1e6))
    return duration


def entry(
    status: int = 200,
    details: str = "via_upstream",
    *,
    replica: str = "10.0.0.1:8000",
    cluster: str = "chat",
    flags: tuple[str, ...] = (),
    labels: dict[str, str] | None = None,
    attempts: int = 1,
    ttfb_ms: float = 20,
    total_ms: float = 60,
) -> Any:
    """A request's last word."""
    one = accesslog_pb2.HTTPAccessLogEntry()
    common = one.common_properties
    common.access_log_type = accesslog_pb2.DownstreamEnd
    common.custom_tags["replica"] = replica
    common.upstream_cluster = cluster
    common.upstream_request_attempt_count = attempts
    common.time_to_first_upstream_tx_byte.CopyFrom(after(5))
    common.time_to_first_upstream_rx_byte.CopyFrom(after(ttfb_ms))
    common.time_to_last_upstream_rx_byte.CopyFrom(after(total_ms - 1))
    common.time_to_last_downstream_tx_byte.CopyFrom(after(total_ms))
    for flag in flags:
        setattr(common.response_flags, flag, True)
    if labels is not None:
        common.metadata.filter_metadata["tidegate.request"].update(labels)
    one.request.request_headers_bytes, one.request.request_body_bytes = 288, 84
    one.response.response_code.value = status
    one.response.response_code_details = details
    one.response.response_headers_bytes, one.response.response_body_bytes = 204, 352
    return one


def outcome(ending: Ending = Ending.SERVED, **more: Any) -> Outcome:
    """One that took 60 ms."""
    plain = {"cluster": "chat", "replica": "a:1", "model": "m", "request_class": "default"}
    times = {"ttfb_ms": 20.0, "total_ms": 60.0, "engine_ms": 50.0, "attempts": 1}
    return Outcome(**{**plain, **times, "ending": ending, **more})
