"""Without ext_proc: Envoy reads the model's name from the body itself, and sends to the cluster that has it.

    whole_body → json_to_metadata → ext_proc → …

Both filters are in the chain, disabled. A route that enables them is all that it takes, and routes change without
draining a connection, as a listener's change would. json_to_metadata stops the headers, so that the buffer filter
at the chain's end would come too late to lift the limit on the body: another one stands before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from envoy.config.route.v3 import route_components_pb2 as components
from envoy.extensions.filters.http.buffer.v3 import buffer_pb2
from envoy.extensions.filters.http.json_to_metadata.v3 import json_to_metadata_pb2 as json_to_metadata
from envoy.type.matcher.v3 import metadata_pb2, string_pb2, value_pb2
from google.protobuf import struct_pb2

from tidegate.domain.topology import WithoutPicker
from xds_server.desired import Desired, DesiredSplit
from xds_server.resources.names import EXT_PROC_FILTER, JSON_TO_METADATA_FILTER, WHOLE_BODY_FILTER
from xds_server.resources.wrap import UInt32, packed

NAMESPACE: Final = "tidegate.by_model"
KEY: Final = "model"
CONTENT_TYPES: Final = ("application/json", "text/plain", "application/x-www-form-urlencoded")
"""What clients call JSON: that it is JSON shows when it is parsed. No multipart body is."""
REWRITE_BYTES: Final = 64 << 10
MOST_BUFFER_BYTES: Final = (1 << 32) - 1


def has_filters(desired: Desired) -> bool:
    """Whether the chain holds the two filters at all."""
    return desired.without_picker is not WithoutPicker.REFUSE


def reads_models(desired: Desired) -> bool:
    """Whether Envoy reads the models of requests."""
    always = desired.without_picker is WithoutPicker.BY_MODEL_ALWAYS
    return always or (has_filters(desired) and desired.picker_away)


def whole_body(desired: Desired) -> Any:
    """Waits for the body, up to what the gateway takes. A body may grow when ext_proc writes another name into it."""
    most = min(desired.max_request_bytes + REWRITE_BYTES, MOST_BUFFER_BYTES)
    return buffer_pb2.Buffer(max_request_bytes=UInt32(value=most))


def model_of_body(default_model: str | None) -> Any:
    """The body's `model` as metadata, or the default for a body without one. What is no JSON has none."""
    kind = json_to_metadata.JsonToMetadata
    rule = kind.Rule(
        selectors=[kind.Selector(key="model")],
        on_present=kind.KeyValuePair(metadata_namespace=NAMESPACE, key=KEY, type=kind.STRING),
    )
    if default_model is not None:
        rule.on_missing.CopyFrom(_constant(default_model))
    rules = kind.MatchRules(rules=[rule], allow_content_types=CONTENT_TYPES, allow_empty_content_type=True)
    return kind(request_rules=rules)


def _constant(model: str) -> Any:
    kind = json_to_metadata.JsonToMetadata
    value = struct_pb2.Value(string_value=model)
    return kind.KeyValuePair(metadata_namespace=NAMESPACE, key=KEY, value=value)


def enable(route: Any, desired: Desired) -> Any:
    """The route that a request meets before its body is there: what has to run for it is said here."""
    config = route.typed_per_filter_config
    if reads_models(desired):
        config[WHOLE_BODY_FILTER].CopyFrom(packed(buffer_pb2.BufferPerRoute(buffer=whole_body(desired))))
        config[JSON_TO_METADATA_FILTER].CopyFrom(packed(model_of_body(desired.default_model)))
    if has_filters(desired) and desired.picker_away:
        # Not ExtProcPerRoute: ext_proc would look at the route that the model chose.
        config[EXT_PROC_FILTER].CopyFrom(packed(components.FilterConfig(disabled=True)))
    return route


def matches_of_rules(desired: Desired) -> Iterator[tuple[str, str, Any]]:
    """Route name, cluster and match of the rules that Envoy can keep."""
    if not reads_models(desired):
        return
    for number, rule in enumerate(desired.name_rules):
        names = (rule.model,) if rule.model is not None else ()
        yield f"by-model rule {number}", rule.cluster, _match(names, rule.headers)


def matches_of_clusters(desired: Desired) -> Iterator[tuple[str, str, Any]]:
    """Route name, cluster and match: each cluster by its models' names."""
    for cluster in desired.clusters if reads_models(desired) else ():
        if cluster.models:
            yield f"by-model {cluster.name}", cluster.name, _match(cluster.models, ())


def splits(desired: Desired) -> Iterator[tuple[DesiredSplit, Any]]:
    """The model of each split and its match. No user keeps a side here: each request is sent by the shares."""
    for split in desired.splits if reads_models(desired) else ():
        yield split, _match((split.model,), ())


def aliased(desired: Desired) -> Any | None:
    """Matches requests that name an alias: their bodies would have to be rewritten. None where there is no alias."""
    return _match(desired.aliases, ()) if reads_models(desired) and desired.aliases else None


def _match(models: Iterable[str], headers: Iterable[tuple[str, str]]) -> Any:
    exact = string_pb2.StringMatcher
    post = components.HeaderMatcher(name=":method", string_match=exact(exact="POST"))
    compared = [components.HeaderMatcher(name=name, string_match=exact(exact=value)) for name, value in headers]
    named = tuple(models)
    return components.RouteMatch(
        prefix="/", headers=[post, *compared], dynamic_metadata=[_named(named)] if named else [_any_model()]
    )


def _named(models: Sequence[str]) -> Any:
    exact = [value_pb2.ValueMatcher(string_match=string_pb2.StringMatcher(exact=name)) for name in models]
    return _metadata(
        value_pb2.ValueMatcher(or_match=value_pb2.OrMatcher(value_matchers=exact)) if exact[1:] else exact[0]
    )


def _any_model() -> Any:
    """Not before the body was read: a route that matches the bare headers would leave the filters disabled."""
    return _metadata(value_pb2.ValueMatcher(present_match=True))


def _metadata(value: Any) -> Any:
    segment = metadata_pb2.MetadataMatcher.PathSegment
    return metadata_pb2.MetadataMatcher(filter=NAMESPACE, path=[segment(key=KEY)], value=value)
