"""Envoy's own spans: W3C Trace Context continued or begun, and told to an OpenTelemetry collector.

A request with a `traceparent` is sampled when that says so; of the others, a part. One that is malformed counts as none
(W3C Trace Context, section 3.2.2.1): Envoy by itself would pass it on and have no span. Its own name for the
ext_proc call is a span too, and what ext_proc is sent names it: see ext_proc/spans.py.
"""

from __future__ import annotations

from typing import Any, Final

from envoy.config.core.v3 import extension_pb2, grpc_service_pb2, http_service_pb2, http_uri_pb2
from envoy.config.trace.v3 import http_tracer_pb2, opentelemetry_pb2
from envoy.extensions.filters.network.http_connection_manager.v3 import http_connection_manager_pb2 as hcm
from envoy.extensions.tracers.opentelemetry.samplers.v3 import (
    parent_based_sampler_pb2,
    trace_id_ratio_based_sampler_pb2,
)
from envoy.type.tracing.v3 import custom_tag_pb2
from envoy.type.v3 import percent_pb2

from xds_server.desired import Collector
from xds_server.resources.names import OTLP_CLUSTER
from xds_server.resources.wrap import Bool, packed, seconds

SERVICE: Final = "tidegate-envoy"
EXPORT_SECONDS: Final = 5.0
MILLION: Final = 1_000_000
# {32} of a class is more than RE2 may have of program here; the length says the rest.
VALID: Final = (
    "%CEL('traceparent' in request.headers && size(request.headers['traceparent']) == 55"
    " && request.headers['traceparent'].matches('^00-[0-9a-f]+-[0-9a-f]{16}-[0-9a-f][0-9a-f]$')"
    " && !request.headers['traceparent'].matches('^00-0+-') && !request.headers['traceparent'].matches('-0+-..$')"
    " ? request.headers['traceparent'] : '')%"
)
"""The header where it is a traceparent of version 00; nothing, and then no header, where it is not."""


def tracing(collector: Collector) -> Any:
    """The HTTP connection manager's. Each try of a request is a span of its own: the parent of the engine's."""
    provider = http_tracer_pb2.Tracing.Http(name="envoy.tracers.opentelemetry", typed_config=packed(_tracer(collector)))
    return hcm.HttpConnectionManager.Tracing(
        provider=provider,
        # The sampler decides, by trace id, as OpenTelemetry's parentbased_traceidratio does.
        random_sampling=percent_pb2.Percent(value=100),
        client_sampling=percent_pb2.Percent(value=0),
        spawn_upstream_span=Bool(value=True),
        # In place of the whole URL: clients put keys into queries.
        custom_tags=[custom_tag_pb2.CustomTag(tag="http.url", value="%PATH(NQ):64%")],
    )


def _tracer(collector: Collector) -> Any:
    config = opentelemetry_pb2.OpenTelemetryConfig(service_name=SERVICE, sampler=_sampler(collector.ratio))
    if collector.path is None:
        envoy_grpc = grpc_service_pb2.GrpcService.EnvoyGrpc(cluster_name=OTLP_CLUSTER)
        service = grpc_service_pb2.GrpcService(envoy_grpc=envoy_grpc, timeout=seconds(EXPORT_SECONDS))
        config.grpc_service.CopyFrom(service)
    else:
        url = f"http://{collector.host}:{collector.port}{collector.path}"
        uri = http_uri_pb2.HttpUri(uri=url, cluster=OTLP_CLUSTER, timeout=seconds(EXPORT_SECONDS))
        config.http_service.CopyFrom(http_service_pb2.HttpService(http_uri=uri))
    return config


def _sampler(ratio: float) -> Any:
    part = percent_pb2.FractionalPercent(
        numerator=round(ratio * MILLION), denominator=percent_pb2.FractionalPercent.MILLION
    )
    by_id = trace_id_ratio_based_sampler_pb2.TraceIdRatioBasedSamplerConfig(sampling_percentage=part)
    wrapped = _extension("trace_id_ratio_based", by_id)
    return _extension("parent_based", parent_based_sampler_pb2.ParentBasedSamplerConfig(wrapped_sampler=wrapped))


def _extension(name: str, config: Any) -> Any:
    return extension_pb2.TypedExtensionConfig(
        name=f"envoy.tracers.opentelemetry.samplers.{name}", typed_config=packed(config)
    )
