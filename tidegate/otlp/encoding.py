"""Spans of the SDK → the bytes of an ExportTraceServiceRequest.

`xds-protos` and `opentelemetry-proto` both bring `opentelemetry/proto`, of different ages, into the same folder, and
which of them is there depends on the order of installation (see docs/decisions/0028-where-a-trace-goes-on.md). On the
wire they are the same; two fields have other names, so they are found by number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans
from opentelemetry.proto.trace.v1.trace_pb2 import Span as SpanMessage
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanKind

_SCOPES: Final = ResourceSpans.DESCRIPTOR.fields_by_number[2]  # scope_spans, or instrumentation_library_spans
_SCOPE_NAME: Final = cast("Any", _SCOPES).message_type.fields_by_number[1].name  # scope, or instrumentation_library
_SCOPES_NAME: Final = _SCOPES.name
_KINDS: Final = {
    SpanKind.INTERNAL: SpanMessage.SPAN_KIND_INTERNAL,
    SpanKind.SERVER: SpanMessage.SPAN_KIND_SERVER,
    SpanKind.CLIENT: SpanMessage.SPAN_KIND_CLIENT,
    SpanKind.PRODUCER: SpanMessage.SPAN_KIND_PRODUCER,
    SpanKind.CONSUMER: SpanMessage.SPAN_KIND_CONSUMER,
}


def encoded(spans: Sequence[ReadableSpan], scope: str) -> bytes:
    """One request with all the spans. They share a resource, that of the first; there is at least one."""
    request = ExportTraceServiceRequest()
    resource_spans = request.resource_spans.add()
    resource_spans.resource.attributes.extend(_pairs(spans[0].resource.attributes))
    scope_spans = getattr(resource_spans, _SCOPES_NAME).add()
    getattr(scope_spans, _SCOPE_NAME).name = scope
    for span in spans:
        _write(scope_spans.spans.add(), span)
    data: bytes = request.SerializeToString()
    return data


def _write(message: Any, span: ReadableSpan) -> None:
    context, parent = span.context, span.parent
    assert context is not None
    message.trace_id = context.trace_id.to_bytes(16, "big")
    message.span_id = context.span_id.to_bytes(8, "big")
    if parent is not None:
        message.parent_span_id = parent.span_id.to_bytes(8, "big")
    message.name, message.kind = span.name, _KINDS[span.kind]
    message.start_time_unix_nano, message.end_time_unix_nano = span.start_time or 0, span.end_time or 0
    message.attributes.extend(_pairs(span.attributes or {}))
    message.status.code = span.status.status_code.value  # 0 unset, 1 ok, 2 error: the same numbers on the wire


def _pairs(attributes: Mapping[str, Any]) -> list[Any]:
    return [KeyValue(key=key, value=_value(value)) for key, value in attributes.items()]


def _value(value: Any) -> Any:
    if isinstance(value, str):
        return AnyValue(string_value=value)
    if isinstance(value, bool):
        return AnyValue(bool_value=value)
    if isinstance(value, int):
        return AnyValue(int_value=value)
    if isinstance(value, float):
        return AnyValue(double_value=value)
    several = AnyValue()
    several.array_value.values.extend(_value(one) for one in value)
    return several
