"""RDS: a route for each cluster by ext_proc's metadata, and the gateway's own answers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final

from envoy.config.core.v3 import base_pb2
from envoy.config.route.v3 import route_components_pb2 as components
from envoy.config.route.v3 import route_pb2
from envoy.extensions.filters.http.ext_proc.v3 import ext_proc_pb2
from envoy.extensions.filters.http.fault.v3 import fault_pb2
from envoy.extensions.retry.host.previous_hosts.v3 import previous_hosts_pb2
from envoy.type.matcher.v3 import metadata_pb2, string_pb2, value_pb2
from envoy.type.v3 import percent_pb2

from tidegate.domain.refusal import MESSAGES_PATH, SHAPES, Dialect, HttpAnswer, http_answer
from tidegate.domain.wire import (
    CLUSTER_HEADER,
    ENDPOINT_HEADER,
    EXPLAIN_HEADER,
    METADATA_CLUSTER,
    METADATA_EXPLAIN,
    METADATA_NAMESPACE,
    METADATA_SHADOWED,
    REASON_HEADER,
)
from xds_server.desired import Desired, DesiredCluster, DesiredSplit
from xds_server.resources import answers, by_model
from xds_server.resources.matches import MODEL_PATHS, MODELS_PATH, RESPONSES_PATH, method, model_paths, path, regex
from xds_server.resources.names import EXT_PROC_FILTER, FAULT_FILTER, ROUTES_NAME
from xds_server.resources.wrap import UInt32, packed, seconds

# What Envoy adds beside x-forwarded-for, and no engine reads.
EXTERNAL_ADDRESS: Final = "x-envoy-external-address"
READ: Final = "GET|HEAD"
# Nothing that an engine may have begun to generate: only what never reached one.
RETRY_ON: Final = "connect-failure,refused-stream,reset-before-request"


def gateway_routes(desired: Desired) -> Any:
    """The RouteConfiguration. The first route that matches wins; the last always does.

    Every POST ends at the unrouted ones, so that however many models there are, it meets no route of a model.
    """
    without_endpoints = tuple(replace(cluster, endpoints=()) for cluster in desired.clusters)
    return _table(replace(desired, clusters=without_endpoints), answers.health(desired))


@lru_cache(maxsize=4)
def _table(desired: Desired, health: HttpAnswer) -> Any:
    """Kept, since weights change several times a second and thousands of models take a third of one to write."""
    models = answers.models(desired)
    host = components.VirtualHost(
        name="gateway",
        domains=["*"],
        routes=[
            _direct("health", method(READ, path="/health"), health),
            _direct("models", method(READ, **path(MODELS_PATH)), models),
            *_shadowed_routes(desired),
            *(_cluster_route(cluster, desired) for cluster in desired.clusters),
            *_routes_by_model(desired),
            _direct("cancel", method("POST", **path(f"{RESPONSES_PATH}/+cancel/*")), answers.not_kept()),
            by_model.enable(_unrouted_post("unrouted-messages", path(MESSAGES_PATH), Dialect.ANTHROPIC), desired),
            by_model.enable(_unrouted_post("unrouted", {"prefix": "/"}, Dialect.OPENAI), desired),
            *_routes_of_models(desired),
            *_refused_methods(desired),
        ],
    )
    return route_pb2.RouteConfiguration(
        name=ROUTES_NAME,
        virtual_hosts=[host],
        max_direct_response_body_size_bytes=UInt32(value=max(4096, len(models.body))),
    )


def _routes_of_models(desired: Desired) -> Iterator[Any]:
    for name in answers.names(desired):
        for number, where in enumerate(model_paths(name)):
            yield _direct(f"model {name} {number}", method(READ, path=where), answers.model(name))
    yield _direct("no-such-model", method(READ, prefix="/v1/models/"), http_answer(answers.NO_SUCH_MODEL))


def _refused_methods(desired: Desired) -> Iterator[Any]:
    """What is no POST and nothing of the gateway's own."""
    yield _direct("preflight", method("OPTIONS", prefix="/"), answers.preflight(desired))
    yield _direct("stored-responses", method("GET|HEAD|DELETE", **path(f"{RESPONSES_PATH}.*")), answers.not_kept())
    at_messages = components.RouteMatch(**path(MESSAGES_PATH))
    yield _direct("method-messages", at_messages, answers.wrong_method(Dialect.ANTHROPIC))
    for number, pattern in enumerate(MODEL_PATHS):
        yield _direct(f"method-{number}", components.RouteMatch(**path(pattern)), answers.wrong_method())
    yield _direct("not-found", components.RouteMatch(prefix="/"), answers.not_found())


def _routes_by_model(desired: Desired) -> Iterator[Any]:
    """Where requests go that ext_proc did not see. A body that would have to be rewritten is refused."""
    if (aliased := by_model.aliased(desired)) is not None:
        yield _answering("by-model alias", aliased, http_answer(answers.NO_ENDPOINT))
    clusters = {cluster.name: cluster for cluster in desired.clusters}
    for name, cluster, match in by_model.matches_of_rules(desired):
        yield _to(clusters[cluster], name, match, desired)
    for split, match in by_model.splits(desired):
        yield _among(split, clusters, match, desired)
    for name, cluster, match in by_model.matches_of_clusters(desired):
        yield _to(clusters[cluster], name, match, desired)


def _among(split: DesiredSplit, clusters: Mapping[str, DesiredCluster], match: Any, desired: Desired) -> Any:
    """To one of a model's versions, by their shares; silence and retries are those of the first."""
    route = _to(clusters[split.parts[0][0]], f"by-model split {split.model}", match, desired)
    weight = components.WeightedCluster.ClusterWeight
    parts = [weight(name=name, weight=UInt32(value=share)) for name, share in split.parts]
    route.route.weighted_clusters.CopyFrom(components.WeightedCluster(clusters=parts))
    for added in route.response_headers_to_add:
        if added.header.key == CLUSTER_HEADER:
            added.header.value = "%UPSTREAM_CLUSTER_RAW%"
    return route


def _shadowed_routes(desired: Desired) -> Iterator[Any]:
    """What ext_proc sent to a cluster, of a model of which Envoy sends copies elsewhere."""
    clusters = {cluster.name: cluster for cluster in desired.clusters}
    for shadow in desired.shadows:
        for name in shadow.clusters:
            match = components.RouteMatch(
                prefix="/", dynamic_metadata=[_chosen(name), _said(METADATA_SHADOWED, shadow.model)]
            )
            route = _to(clusters[name], f"{name} shadowed {shadow.model}", match, desired)
            mirrors = (_mirror(cluster, share) for cluster, share in shadow.parts if cluster != name)
            route.route.request_mirror_policies.extend(mirrors)
            yield route


def _mirror(cluster: str, permille: int) -> Any:
    """Envoy sends a copy and drops its answer, whatever that is."""
    kind = percent_pb2.FractionalPercent
    share = kind(numerator=permille * 10, denominator=kind.TEN_THOUSAND)
    return components.RouteAction.RequestMirrorPolicy(
        cluster=cluster, runtime_fraction=base_pb2.RuntimeFractionalPercent(default_value=share)
    )


def _cluster_route(cluster: DesiredCluster, desired: Desired) -> Any:
    """What ext_proc sent to this cluster."""
    match = components.RouteMatch(prefix="/", dynamic_metadata=[_chosen(cluster.name)])
    return _to(cluster, cluster.name, match, desired)


def _to(cluster: DesiredCluster, name: str, match: Any, desired: Desired) -> Any:
    """A route to a cluster. An engine's own x-tidegate headers never reach the client."""
    shown = [(CLUSTER_HEADER, cluster.name.replace("%", "%%")), (ENDPOINT_HEADER, "%UPSTREAM_HOST_NAME%")]
    why = [(EXPLAIN_HEADER, f"%DYNAMIC_METADATA({METADATA_NAMESPACE}:{METADATA_EXPLAIN})%")]
    added = [*(shown if desired.expose_routing else ()), *(why if desired.explain else ())]
    return components.Route(
        name=name,
        match=match,
        route=components.RouteAction(
            cluster=cluster.name,
            timeout=seconds(0),
            idle_timeout=seconds(cluster.upstream.silence_ms / 1000),
            retry_policy=_retry_policy(cluster.upstream.retries),
        ),
        request_headers_to_remove=[EXTERNAL_ADDRESS, *desired.inputs, *desired.strip_headers],
        response_headers_to_remove=[CLUSTER_HEADER, ENDPOINT_HEADER, EXPLAIN_HEADER, REASON_HEADER],
        response_headers_to_add=_headers(added),
    )


def _chosen(cluster: str) -> Any:
    return _said(METADATA_CLUSTER, cluster)


def _said(key: str, value: str) -> Any:
    """ext_proc's metadata has this value."""
    return metadata_pb2.MetadataMatcher(
        filter=METADATA_NAMESPACE,
        path=[metadata_pb2.MetadataMatcher.PathSegment(key=key)],
        value=value_pb2.ValueMatcher(string_match=string_pb2.StringMatcher(exact=value)),
    )


def _retry_policy(retries: int) -> Any:
    """So many more tries, each at another host than those before."""
    name, config = "envoy.retry_host_predicates.previous_hosts", previous_hosts_pb2.PreviousHostsPredicate()
    predicate = components.RetryPolicy.RetryHostPredicate(name=name, typed_config=packed(config))
    return components.RetryPolicy(
        retry_on=RETRY_ON,
        num_retries=UInt32(value=retries),
        retry_host_predicate=[predicate],
        host_selection_retry_max_attempts=5,
    )


def _unrouted_post(name: str, where: dict[str, Any], dialect: Dialect) -> Any:
    """A POST for which ext_proc chose nothing: an empty one (ext_proc sees bodies alone), or ext_proc is away.

    The buffer filter gives every body a content-length, so the fault filter, which stands behind it, can tell
    the two apart where a route cannot.
    """
    route = _answering(name, method("POST", **where), http_answer(answers.NO_ENDPOINT, dialect))
    route.typed_per_filter_config[FAULT_FILTER].CopyFrom(packed(_refuse_empty()))
    return route


def _refuse_empty() -> Any:
    whole = percent_pb2.FractionalPercent(numerator=100, denominator=percent_pb2.FractionalPercent.HUNDRED)
    has_body = components.HeaderMatcher(
        name="content-length",
        string_match=string_pb2.StringMatcher(safe_regex=regex("[1-9][0-9]*")),
        invert_match=True,
        treat_missing_header_as_empty=True,
    )
    return fault_pb2.HTTPFault(
        abort=fault_pb2.FaultAbort(http_status=SHAPES[answers.EMPTY_BODY.reason].status, percentage=whole),
        headers=[has_body],
    )


def _direct(name: str, match: Any, answer: HttpAnswer) -> Any:
    """An answer that needs nothing of the body, so that ext_proc is not asked."""
    route = _answering(name, match, answer)
    route.typed_per_filter_config[EXT_PROC_FILTER].CopyFrom(packed(ext_proc_pb2.ExtProcPerRoute(disabled=True)))
    return route


def _answering(name: str, match: Any, answer: HttpAnswer) -> Any:
    return components.Route(
        name=name,
        match=match,
        direct_response=components.DirectResponseAction(
            status=answer.status, body=base_pb2.DataSource(inline_bytes=answer.body) if answer.body else None
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
