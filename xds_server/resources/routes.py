"""RDS: a route for each cluster by ext_proc's metadata, and the gateway's own answers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from envoy.config.core.v3 import base_pb2
from envoy.config.route.v3 import route_components_pb2 as components
from envoy.config.route.v3 import route_pb2
from envoy.extensions.filters.http.fault.v3 import fault_pb2
from envoy.extensions.retry.host.previous_hosts.v3 import previous_hosts_pb2
from envoy.type.matcher.v3 import metadata_pb2, regex_pb2, string_pb2, value_pb2
from envoy.type.v3 import percent_pb2

from tidegate.domain.refusal import HttpAnswer
from tidegate.domain.wire import (
    CLUSTER_HEADER,
    ENDPOINT_HEADER,
    METADATA_CLUSTER,
    METADATA_NAMESPACE,
    REASON_HEADER,
)
from xds_server.desired import Desired, DesiredCluster
from xds_server.resources import answers
from xds_server.resources.names import FAULT_FILTER, ROUTES_NAME
from xds_server.resources.wrap import UInt32, packed, seconds

# A long answer that is not streamed is silent until it is whole: tens of thousands of tokens take their time.
SILENCE_SECONDS: Final = 3600.0
# Nothing that an engine may have begun to generate: only what never reached one.
RETRY_ON: Final = "connect-failure,refused-stream,reset-before-request"


def gateway_routes(desired: Desired) -> Any:
    """The RouteConfiguration. The first route that matches wins; the last two always match."""
    models = answers.models(desired)
    host = components.VirtualHost(
        name="gateway",
        domains=["*"],
        routes=[
            _direct("health", _get("/health"), answers.health(desired)),
            _direct("models", _get("/v1/models"), models),
            *(_cluster_route(cluster, desired.expose_routing) for cluster in desired.clusters),
            _unrouted_post(),
            _direct("not-found", components.RouteMatch(prefix="/"), answers.not_found()),
        ],
    )
    return route_pb2.RouteConfiguration(
        name=ROUTES_NAME,
        virtual_hosts=[host],
        max_direct_response_body_size_bytes=UInt32(value=max(4096, len(models.body))),
    )


def _cluster_route(cluster: DesiredCluster, expose_routing: bool) -> Any:
    """What ext_proc sent to this cluster. An engine's own x-tidegate headers never reach the client."""
    shown = [(CLUSTER_HEADER, cluster.name.replace("%", "%%")), (ENDPOINT_HEADER, "%UPSTREAM_HOST_NAME%")]
    return components.Route(
        name=cluster.name,
        match=components.RouteMatch(prefix="/", dynamic_metadata=[_chosen(cluster.name)]),
        route=components.RouteAction(
            cluster=cluster.name,
            timeout=seconds(0),
            idle_timeout=seconds(SILENCE_SECONDS),
            retry_policy=_retry_policy(),
        ),
        response_headers_to_remove=[CLUSTER_HEADER, ENDPOINT_HEADER, REASON_HEADER],
        response_headers_to_add=_headers(shown if expose_routing else ()),
    )


def _chosen(cluster: str) -> Any:
    return metadata_pb2.MetadataMatcher(
        filter=METADATA_NAMESPACE,
        path=[metadata_pb2.MetadataMatcher.PathSegment(key=METADATA_CLUSTER)],
        value=value_pb2.ValueMatcher(string_match=string_pb2.StringMatcher(exact=cluster)),
    )


def _retry_policy() -> Any:
    """Two more tries, each at another host than those before."""
    name, config = "envoy.retry_host_predicates.previous_hosts", previous_hosts_pb2.PreviousHostsPredicate()
    predicate = components.RetryPolicy.RetryHostPredicate(name=name, typed_config=packed(config))
    return components.RetryPolicy(
        retry_on=RETRY_ON,
        num_retries=UInt32(value=2),
        retry_host_predicate=[predicate],
        host_selection_retry_max_attempts=5,
    )


def _unrouted_post() -> Any:
    """A POST for which ext_proc chose nothing: an empty one (ext_proc sees bodies alone), or ext_proc is away.

    The buffer filter gives every body a content-length, so the fault filter, which stands behind it, can tell
    the two apart where a route cannot.
    """
    route = _direct("unrouted", _method("POST", prefix="/"), answers.NO_ENDPOINT)
    route.typed_per_filter_config[FAULT_FILTER].CopyFrom(packed(_refuse_empty()))
    return route


def _refuse_empty() -> Any:
    whole = percent_pb2.FractionalPercent(numerator=100, denominator=percent_pb2.FractionalPercent.HUNDRED)
    has_body = components.HeaderMatcher(
        name="content-length",
        string_match=string_pb2.StringMatcher(safe_regex=_regex("[1-9][0-9]*")),
        invert_match=True,
        treat_missing_header_as_empty=True,
    )
    return fault_pb2.HTTPFault(
        abort=fault_pb2.FaultAbort(http_status=answers.EMPTY_BODY.status, percentage=whole),
        headers=[has_body],
    )


def _regex(pattern: str) -> Any:
    return regex_pb2.RegexMatcher(regex=pattern)


def _get(path: str) -> Any:
    return _method("GET", path=path)


def _method(method: str, **match: str) -> Any:
    exact = string_pb2.StringMatcher(exact=method)
    return components.RouteMatch(headers=[components.HeaderMatcher(name=":method", string_match=exact)], **match)


def _direct(name: str, match: Any, answer: HttpAnswer) -> Any:
    return components.Route(
        name=name,
        match=match,
        direct_response=components.DirectResponseAction(
            status=answer.status, body=base_pb2.DataSource(inline_bytes=answer.body)
        ),
        response_headers_to_add=_headers(answer.headers),
    )


def _headers(headers: Iterable[tuple[str, str]]) -> list[Any]:
    option = base_pb2.HeaderValueOption
    return [
        option(
            header=base_pb2.HeaderValue(key=key, value=value),
            append_action=option.OVERWRITE_IF_EXISTS_OR_ADD,
        )
        for key, value in headers
    ]
