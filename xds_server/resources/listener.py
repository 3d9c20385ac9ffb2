"""LDS: the gateway's listener and its filter chain.

    HTTP connection manager → (header_mutation →) (by_model →) ext_proc → buffer → fault → router

ext_proc asks for the body alone; buffer behind it holds the headers back until the body is there, so that the
router meets the route that ext_proc's answer chose. fault tells empty requests from bodies (see routes).
header_mutation is there where pages of another origin may call (see cors), by_model are two filters that are
enabled while ext_proc is away.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from envoy.config.common.mutation_rules.v3 import mutation_rules_pb2
from envoy.config.core.v3 import base_pb2, extension_pb2, grpc_service_pb2
from envoy.config.listener.v3 import listener_components_pb2, listener_pb2
from envoy.extensions.filters.http.ext_proc.v3 import ext_proc_pb2, processing_mode_pb2
from envoy.extensions.filters.http.fault.v3 import fault_pb2
from envoy.extensions.filters.http.router.v3 import router_pb2
from envoy.extensions.filters.network.http_connection_manager.v3 import http_connection_manager_pb2 as hcm
from envoy.extensions.http.early_header_mutation.header_mutation.v3 import header_mutation_pb2
from envoy.type.matcher.v3 import string_pb2

from tidegate.domain.trace_context import TRACEPARENT_HEADER
from tidegate.domain.wire import (
    CONTENT_ENCODING_ATTRIBUTE,
    CONTENT_TYPE_ATTRIBUTE,
    CONTROL_PREFIX,
    DESTINATION_ENDPOINT,
    LABELS_NAMESPACE,
    LB_METADATA_NAMESPACE,
    METADATA_NAMESPACE,
    PATH_ATTRIBUTE,
    header_attribute,
)
from xds_server.desired import Desired
from xds_server.resources import by_model
from xds_server.resources.access_log import grpc_access_log
from xds_server.resources.clusters import over_ads
from xds_server.resources.cors import share_with
from xds_server.resources.endpoints import socket_address
from xds_server.resources.local_replies import local_replies
from xds_server.resources.names import (
    BUFFER_FILTER,
    EXT_PROC_CLUSTER,
    EXT_PROC_FILTER,
    FAULT_FILTER,
    HCM_FILTER,
    HEADER_MUTATION_FILTER,
    JSON_TO_METADATA_FILTER,
    LISTENER_NAME,
    ROUTER_FILTER,
    ROUTES_NAME,
    WHOLE_BODY_FILTER,
)
from xds_server.resources.tracing import VALID, tracing
from xds_server.resources.wrap import Bool, packed, seconds

# Long enough for many bodies of tens of megabytes at once on a busy machine.
EXT_PROC_TIMEOUT_SECONDS: Final = 5.0
# ext_proc may ask once for more time, to hold a request in its queue.
EXT_PROC_MOST_SECONDS: Final = 120.0
UPLOAD_SECONDS: Final = 300.0
SILENCE_SECONDS: Final = 3600.0

ATTRIBUTES: Final = (PATH_ATTRIBUTE, CONTENT_ENCODING_ATTRIBUTE, CONTENT_TYPE_ATTRIBUTE)
# x-envoy-* would let a client change timeouts and retries.
ASIDE_PREFIX: Final = "tidegate-aside-"
STRIPPED_PREFIXES: Final = (CONTROL_PREFIX, DESTINATION_ENDPOINT, "x-envoy-")


def gateway_listener(desired: Desired) -> Any:
    """The Listener: HTTP/1.1 and HTTP/2 without TLS on one port."""
    manager = listener_components_pb2.Filter(name=HCM_FILTER, typed_config=packed(_manager(desired)))
    return listener_pb2.Listener(
        name=LISTENER_NAME,
        address=socket_address(desired.listen_host, desired.listen_port),
        filter_chains=[listener_components_pb2.FilterChain(filters=[manager])],
    )


def _manager(desired: Desired) -> Any:
    """The HTTP connection manager. Headers of engines pass through as they are."""
    return hcm.HttpConnectionManager(
        codec_type=hcm.HttpConnectionManager.AUTO,
        stat_prefix="gateway",
        rds=hcm.Rds(config_source=over_ads(), route_config_name=ROUTES_NAME),
        http_filters=[
            *([_filter(HEADER_MUTATION_FILTER, share_with(desired.cors_origin))] if desired.cors_origin else []),
            *_by_model_filters(desired),
            _filter(EXT_PROC_FILTER, ext_proc_filter([*desired.rule_headers, *desired.inputs], desired.attributes)),
            _filter(BUFFER_FILTER, by_model.whole_body(desired)),
            _filter(FAULT_FILTER, fault_pb2.HTTPFault()),
            _filter(ROUTER_FILTER, router_pb2.Router(suppress_envoy_headers=True)),
        ],
        use_remote_address=Bool(value=True),
        normalize_path=Bool(value=True),
        server_header_transformation=hcm.HttpConnectionManager.PASS_THROUGH,
        early_header_mutation_extensions=[_strip_control_headers(desired)],
        local_reply_config=local_replies(),
        stream_idle_timeout=seconds(SILENCE_SECONDS),
        request_timeout=seconds(UPLOAD_SECONDS),
        request_headers_timeout=seconds(10),
        stream_error_on_invalid_http_message=Bool(value=True),
        access_log=[grpc_access_log()] if desired.outcomes else [],
        tracing=tracing(desired.collector) if desired.collector else None,
    )


def _by_model_filters(desired: Desired) -> list[Any]:
    if not by_model.has_filters(desired):
        return []
    whole_body = _filter(WHOLE_BODY_FILTER, by_model.whole_body(desired))
    reader = _filter(JSON_TO_METADATA_FILTER, by_model.model_of_body(desired.default_model))
    whole_body.disabled = reader.disabled = True
    return [whole_body, reader]


def ext_proc_filter(headers: Iterable[str], more: Iterable[str] = ()) -> Any:
    """One message each way. Without ext_proc the request goes on, and meets the route that answers 503.

    ext_proc is sent what it reads and nothing else: of the headers, those that rules compare and clients may send, and
    `more` attributes.
    """
    attributes = dict.fromkeys([*ATTRIBUTES, *map(header_attribute, headers), *more])
    mode = processing_mode_pb2.ProcessingMode
    untyped = [METADATA_NAMESPACE, LABELS_NAMESPACE, LB_METADATA_NAMESPACE]
    namespaces = ext_proc_pb2.MetadataOptions.MetadataNamespaces(untyped=untyped)
    return ext_proc_pb2.ExternalProcessor(
        grpc_service=grpc_service_pb2.GrpcService(
            # x-forwarded-for and its like on every stream: what ext_proc reads of a client, it asks for.
            envoy_grpc=grpc_service_pb2.GrpcService.EnvoyGrpc(cluster_name=EXT_PROC_CLUSTER, skip_envoy_headers=True)
        ),
        failure_mode_allow=True,
        processing_mode=mode(
            request_header_mode=mode.SKIP,
            request_body_mode=mode.BUFFERED,
            request_trailer_mode=mode.SKIP,
            response_header_mode=mode.SKIP,
            response_body_mode=mode.NONE,
            response_trailer_mode=mode.SKIP,
        ),
        request_attributes=list(attributes),
        message_timeout=seconds(EXT_PROC_TIMEOUT_SECONDS),
        max_message_timeout=seconds(EXT_PROC_MOST_SECONDS),
        metadata_options=ext_proc_pb2.MetadataOptions(receiving_namespaces=namespaces),
        stat_prefix="tidegate",
    )


def _strip_control_headers(desired: Desired) -> Any:
    """Headers with which a client would speak as Tidegate or as Envoy go before anything reads them.

    No matcher can spare some of a prefix, so `inputs` stand aside under other names meanwhile; so does a traceparent
    that is one, where Envoy traces.
    """
    traced = [TRACEPARENT_HEADER] if desired.collector else []
    aside = {name: ASIDE_PREFIX + name for name in (*desired.inputs, *traced)}
    mutations = [
        _without(ASIDE_PREFIX),
        *(_written(to, VALID if name == TRACEPARENT_HEADER else f"%REQ({name})%") for name, to in aside.items()),
        *map(_without, (*STRIPPED_PREFIXES, *traced)),
        *(_written(name, f"%REQ({to})%") for name, to in aside.items()),
        _without(ASIDE_PREFIX),
    ]
    return extension_pb2.TypedExtensionConfig(
        name="envoy.http.early_header_mutation.header_mutation",
        typed_config=packed(header_mutation_pb2.HeaderMutation(mutations=mutations)),
    )


def _without(prefix: str) -> Any:
    mutation = mutation_rules_pb2.HeaderMutation
    matcher = string_pb2.StringMatcher(prefix=prefix)
    return mutation(remove_on_match=mutation.RemoveOnMatch(key_matcher=matcher))


def _written(name: str, value: str) -> Any:
    """A header by a format; nothing where that gives nothing."""
    option = base_pb2.HeaderValueOption
    header = base_pb2.HeaderValue(key=name, value=value)
    return mutation_rules_pb2.HeaderMutation(
        append=option(header=header, append_action=option.OVERWRITE_IF_EXISTS_OR_ADD)
    )


def _filter(name: str, config: Any) -> Any:
    return hcm.HttpFilter(name=name, typed_config=packed(config))
