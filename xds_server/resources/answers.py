"""Answers that Envoy gives itself, in the shape of the gateway's contract."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from tidegate.domain.refusal import Dialect, HttpAnswer, HttpShape, Reason, Refusal, error_body, http_answer
from tidegate.domain.wire import REASON_HEADER
from xds_server.desired import Desired
from xds_server.resources.cors import preflight_headers

JSON_TYPE: Final = "application/json"

EMPTY_BODY: Final = Refusal(Reason.INVALID_JSON, "The request has no body; send a JSON object that names a model.")
BODY_TOO_LARGE: Final = Refusal(Reason.BODY_TOO_LARGE, "The request body is larger than this gateway accepts.")
NO_ENDPOINT: Final = Refusal(Reason.NO_ENDPOINT, "No replica can take this request right now; try again shortly.")
BROKE_OFF: Final = Refusal(Reason.NO_ENDPOINT, "The replica closed the connection before it answered.")
BAD_REQUEST: Final = Refusal(Reason.INVALID_REQUEST, "The gateway could not serve this request.")
NO_SUCH_MODEL: Final = Refusal(Reason.MODEL_NOT_FOUND, "There is no such model; GET /v1/models lists those there are.")

_NOT_FOUND: Final = HttpShape(404, "invalid_request_error", "not_found")
_WRONG_METHOD: Final = HttpShape(405, "invalid_request_error", "method_not_allowed")


def not_found(dialect: Dialect = Dialect.OPENAI) -> HttpAnswer:
    """404: a path that is neither the gateway's own nor a POST."""
    message = "There is nothing here; models are served by POST, and listed by GET /v1/models."
    return _answer(_NOT_FOUND, "not-found", message, dialect)


def not_kept() -> HttpAnswer:
    """404: a stored response, which only the engine that made it knows."""
    message = "Stored responses are not served here: they live on the one replica that made them."
    return _answer(_NOT_FOUND, "not-found", message)


def wrong_method(dialect: Dialect = Dialect.OPENAI) -> HttpAnswer:
    """405: an endpoint of models, by another method than POST."""
    answer = _answer(_WRONG_METHOD, "method-not-allowed", "This endpoint is called by POST.", dialect)
    return HttpAnswer(answer.status, (*answer.headers, ("allow", "POST, OPTIONS")), answer.body)


def preflight(desired: Desired) -> HttpAnswer:
    """204: what may be asked of this gateway, and what pages of another origin may send."""
    return HttpAnswer(204, preflight_headers(desired.cors_origin), b"")


def models(desired: Desired) -> HttpAnswer:
    """200: every model of every cluster, in the order of the file, then aliases."""
    return _json({"object": "list", "data": [_model(name) for name in names(desired)]})


def model(name: str) -> HttpAnswer:
    """200: one model."""
    return _json(_model(name))


def names(desired: Desired) -> Iterable[str]:
    """Every name that clients may send, each once."""
    own = (name for cluster in desired.clusters for name in cluster.models)
    return dict.fromkeys([*own, *(split.model for split in desired.splits), *desired.aliases])


def health(desired: Desired) -> HttpAnswer:
    """200 when at least one cluster can serve, 503 otherwise."""
    return _json({"status": "ok"}) if desired.can_serve else http_answer(NO_ENDPOINT)


def _model(name: str) -> dict[str, object]:
    """When it was made is not known: `created` is 0."""
    return {"id": name, "object": "model", "created": 0, "owned_by": "tidegate"}


def _json(value: object) -> HttpAnswer:
    return HttpAnswer(200, (("content-type", JSON_TYPE),), msgspec.json.encode(value))


def _answer(shape: HttpShape, reason: str, message: str, dialect: Dialect = Dialect.OPENAI) -> HttpAnswer:
    headers = (("content-type", JSON_TYPE), (REASON_HEADER, reason))
    return HttpAnswer(shape.status, headers, error_body(shape, message, dialect))
