"""Answers that Envoy gives itself, in the shape of the gateway's contract."""

from __future__ import annotations

from typing import Final

import msgspec

from tidegate.domain.refusal import HttpAnswer, Reason, Refusal, http_answer
from tidegate.domain.wire import REASON_HEADER
from xds_server.desired import Desired

JSON_TYPE: Final = "application/json"

EMPTY_BODY: Final = http_answer(
    Refusal(Reason.INVALID_JSON, "The request has no body; send a JSON object that names a model.")
)
BODY_TOO_LARGE: Final = http_answer(
    Refusal(Reason.BODY_TOO_LARGE, "The request body is larger than this gateway accepts.")
)
NO_ENDPOINT: Final = http_answer(
    Refusal(Reason.NO_ENDPOINT, "No replica can take this request right now; try again shortly.")
)
BROKE_OFF: Final = http_answer(Refusal(Reason.NO_ENDPOINT, "The replica closed the connection before it answered."))
BAD_REQUEST: Final = http_answer(Refusal(Reason.INVALID_REQUEST, "The gateway could not serve this request."))


def not_found() -> HttpAnswer:
    """404: a path that is neither the gateway's own nor a POST."""
    error = {
        "message": "There is nothing here; models are served by POST, and listed by GET /v1/models.",
        "type": "invalid_request_error",
        "param": None,
        "code": "not_found",
    }
    headers = (("content-type", JSON_TYPE), (REASON_HEADER, "not-found"))
    return HttpAnswer(404, headers, msgspec.json.encode({"error": error}))


def models(desired: Desired) -> HttpAnswer:
    """200: every model of every cluster, in the order of the file. When it was made is not known: `created` is 0."""
    names = [model for cluster in desired.clusters for model in cluster.models]
    data = [{"id": name, "object": "model", "created": 0, "owned_by": "tidegate"} for name in names]
    body = msgspec.json.encode({"object": "list", "data": data})
    return HttpAnswer(200, (("content-type", JSON_TYPE),), body)


def health(desired: Desired) -> HttpAnswer:
    """200 when at least one cluster can serve, 503 otherwise."""
    if not desired.can_serve:
        return NO_ENDPOINT
    return HttpAnswer(200, (("content-type", JSON_TYPE),), b'{"status":"ok"}')
