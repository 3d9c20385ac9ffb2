"""One entry of Envoy's access log → an Outcome.

Who answered shows in the response code's details, where Envoy writes `via_upstream` for an engine's whole answer and
the reason for anything else; ext_proc's refusals bear their own.
"""

from __future__ import annotations

from typing import Any, Final

from tidegate.domain.outcomes.ending import GATEWAY, Ending, Outcome, ending_of_status
from tidegate.domain.refusal import SHAPES, Reason
from tidegate.domain.wire import LABEL_CLASS, LABEL_MODEL, LABELS_NAMESPACE, REPLICA_TAG

WHOLE: Final = "via_upstream"
OURS: Final = "tidegate_"
DIRECT: Final = "direct_response"
BY_MODEL: Final = ("tidegate.by_model", "model")
"""Where Envoy keeps the model's name that it read itself, while no ext_proc answers."""
_REASONS: Final = {f"{OURS}{reason}": reason for reason in Reason}


def outcome_of(entry: Any) -> Outcome | None:
    """What became of an HTTPAccessLogEntry's request; None where it was none for an engine, such as a health check."""
    common, response = entry.common_properties, entry.response
    status, details = response.response_code.value, response.response_code_details
    replica = common.custom_tags.get(REPLICA_TAG, "")
    replica = "" if replica == "-" else replica
    ending = _ending(common.response_flags, status, details, asked=bool(replica))
    if ending is Ending.REFUSED and status < 400:
        return None
    model, request_class = _labels(common.metadata.filter_metadata)
    sent_at = _milliseconds(common, "time_to_first_upstream_tx_byte")
    last_at = _milliseconds(common, "time_to_last_upstream_rx_byte")
    return Outcome(
        cluster=common.upstream_cluster,
        replica=replica,
        model=model,
        request_class=request_class,
        status=status,
        ending=ending,
        reason=_reason(details, status, common.response_flags) if ending is Ending.REFUSED else "",
        ttfb_ms=_milliseconds(common, "time_to_first_upstream_rx_byte"),
        total_ms=_milliseconds(common, "time_to_last_downstream_tx_byte"),
        engine_ms=last_at - sent_at if sent_at is not None and last_at is not None else None,
        received_bytes=entry.request.request_headers_bytes + entry.request.request_body_bytes,
        sent_bytes=response.response_headers_bytes + response.response_body_bytes,
        attempts=common.upstream_request_attempt_count,
    )


def _ending(flags: Any, status: int, details: str, *, asked: bool) -> Ending:
    """`asked`: a replica was. A replica's failure comes before a client that leaves because of it."""
    if asked and (
        flags.upstream_connection_failure
        or flags.upstream_connection_termination
        or flags.upstream_remote_reset
        or flags.upstream_protocol_error
    ):
        return Ending.FAULT
    if flags.downstream_connection_termination or flags.downstream_remote_reset or flags.downstream_protocol_error:
        return Ending.LEFT
    if details == WHOLE:
        return ending_of_status(status)
    return Ending.FAULT if asked else Ending.REFUSED


def _reason(details: str, status: int, flags: Any) -> str:
    if details in _REASONS:
        return _REASONS[details]
    if flags.no_healthy_upstream or (status == 503 and (details == DIRECT or flags.upstream_overflow)):
        return Reason.NO_ENDPOINT
    return Reason.BODY_TOO_LARGE if status == SHAPES[Reason.BODY_TOO_LARGE].status else GATEWAY


def _labels(metadata: Any) -> tuple[str, str]:
    """Model and class, as ext_proc said; the model as Envoy read it where ext_proc was away."""
    if LABELS_NAMESPACE in metadata:
        fields = metadata[LABELS_NAMESPACE].fields
        return fields[LABEL_MODEL].string_value, fields[LABEL_CLASS].string_value
    if BY_MODEL[0] in metadata:
        return metadata[BY_MODEL[0]].fields[BY_MODEL[1]].string_value, ""
    return "", ""


def _milliseconds(common: Any, name: str) -> float | None:
    """A duration since the request's first byte; None where it did not come to that."""
    if not common.HasField(name):
        return None
    duration = getattr(common, name)
    return float(duration.seconds * 1000 + duration.nanos / 1e6)
