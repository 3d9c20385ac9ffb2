"""Builders of ProcessingResponses, one for each thing that is ever said. Results are serialised bytes."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from envoy.config.core.v3.base_pb2 import HeaderValue, HeaderValueOption
from envoy.service.ext_proc.v3 import external_processor_pb2 as pb
from envoy.type.v3.http_status_pb2 import HttpStatus

from tidegate.domain.refusal import Dialect, Refusal, http_answer
from tidegate.domain.wire import (
    DESTINATION_ENDPOINT,
    LABEL_CLASS,
    LABEL_MODEL,
    LABELS_NAMESPACE,
    LB_METADATA_NAMESPACE,
    METADATA_CLUSTER,
    METADATA_EXPLAIN,
    METADATA_NAMESPACE,
    METADATA_SHADOWED,
)

# clear_route_cache acts only beside a header mutation that is not empty. Envoy 1.40 does not carry this one out: the
# headers have passed ext_proc by then. The listener strips what a client must not send.
DUMMY_MUTATION: Final = pb.HeaderMutation(remove_headers=[DESTINATION_ENDPOINT])

EMPTY_REPLIES: Final[dict[str, bytes]] = {
    "request_headers": pb.ProcessingResponse(request_headers=pb.HeadersResponse()).SerializeToString(),
    "response_headers": pb.ProcessingResponse(response_headers=pb.HeadersResponse()).SerializeToString(),
    "response_body": pb.ProcessingResponse(response_body=pb.BodyResponse()).SerializeToString(),
    "request_trailers": pb.ProcessingResponse(request_trailers=pb.TrailersResponse()).SerializeToString(),
    "response_trailers": pb.ProcessingResponse(response_trailers=pb.TrailersResponse()).SerializeToString(),
}
"""The empty answer to each kind of message that decides nothing."""


@lru_cache(maxsize=4096)
def routed(cluster: str, destinations: tuple[str, ...], shadowed: str | None = None) -> bytes:
    """Send the request to `cluster`, to the first of `destinations` (`ip:port`) that Envoy can use.

    No destinations: Envoy's own balancing chooses within the cluster. `shadowed` is a model of which Envoy mirrors
    some requests.
    """
    return written(cluster, destinations, shadowed)


def written(
    cluster: str,
    destinations: tuple[str, ...],
    shadowed: str | None = None,
    *,
    body: bytes | None = None,
    explanation: str | None = None,
) -> bytes:
    """`routed`, with another body, of which the buffer filter behind ext_proc sets the content-length, or with an
    explanation for the client."""
    response = _to_cluster(cluster, destinations)
    if shadowed is not None:
        response.dynamic_metadata[METADATA_NAMESPACE][METADATA_SHADOWED] = shadowed
    if body is not None:
        response.request_body.response.body_mutation.body = body
    if explanation is not None:
        response.dynamic_metadata[METADATA_NAMESPACE][METADATA_EXPLAIN] = explanation
    serialised: bytes = response.SerializeToString(deterministic=True)
    return serialised


def _to_cluster(cluster: str, destinations: tuple[str, ...]) -> pb.ProcessingResponse:
    response = pb.ProcessingResponse()
    common = response.request_body.response
    common.header_mutation.CopyFrom(DUMMY_MUTATION)
    common.clear_route_cache = True
    metadata = response.dynamic_metadata
    metadata.get_or_create_struct(METADATA_NAMESPACE)[METADATA_CLUSTER] = cluster
    if destinations:
        lb = metadata.get_or_create_struct(LB_METADATA_NAMESPACE)
        lb[DESTINATION_ENDPOINT] = ",".join(destinations)
    return response


@lru_cache(maxsize=1024)
def labels(model: str, request_class: str) -> bytes:
    """What stands behind an answer, for the access log: Protobuf reads two messages in a row as one that has both.

    Kept apart from answers, so that there are not as many of those as there are models and classes together.
    """
    response = pb.ProcessingResponse()
    named = response.dynamic_metadata.get_or_create_struct(LABELS_NAMESPACE)
    named[LABEL_MODEL], named[LABEL_CLASS] = model, request_class
    serialised: bytes = response.SerializeToString(deterministic=True)
    return serialised


@lru_cache(maxsize=64)
def more_time(milliseconds: int) -> bytes:
    """The answer takes up to so long. Envoy hears this once a message, up to its max_message_timeout."""
    response = pb.ProcessingResponse()
    response.override_message_timeout.FromMilliseconds(milliseconds)
    serialised: bytes = response.SerializeToString()
    return serialised


def refused(refusal: Refusal, dialect: Dialect = Dialect.OPENAI) -> bytes:
    """Answer the client in Envoy's place, by the contract's status, headers and body."""
    answer = http_answer(refusal, dialect)
    headers = [
        HeaderValueOption(
            header=HeaderValue(key=name, raw_value=value.encode("ascii")),
            append_action=HeaderValueOption.OVERWRITE_IF_EXISTS_OR_ADD,
        )
        for name, value in answer.headers
    ]
    immediate = pb.ImmediateResponse(
        status=HttpStatus(code=answer.status),
        headers=pb.HeaderMutation(set_headers=headers),
        body=answer.body,
        details=f"tidegate_{refusal.reason}",
    )
    response = pb.ProcessingResponse(immediate_response=immediate)
    serialised: bytes = response.SerializeToString(deterministic=True)
    return serialised
