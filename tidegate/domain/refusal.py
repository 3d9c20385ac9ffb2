"""What the gateway refuses, and the one mapping from a refusal to HTTP.

    reason                status   error.type              error.code
    invalid-json             400   invalid_request_error   invalid_json
    model-required           400   invalid_request_error   missing_required_parameter
    invalid-request          400   invalid_request_error   invalid_value
    model-not-found          404   invalid_request_error   model_not_found
    body-too-large           413   invalid_request_error   request_too_large
    unsupported-encoding     415   invalid_request_error   unsupported_encoding
    saturated                429   rate_limit_error        rate_limit_exceeded
    held                     429   rate_limit_error        rate_limit_exceeded
    queue-timeout            429   rate_limit_error        rate_limit_exceeded
    no-endpoint              503   server_error            service_unavailable

Types and codes are the ones OpenAI answers, where it has one: clients branch on them. On Anthropic's paths the
body has Anthropic's shape instead, with the type that belongs to the status:

    400, 415 invalid_request_error   404 not_found_error   413 request_too_large   429 rate_limit_error   503 api_error
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

import msgspec

from tidegate.domain.errors import TidegateError
from tidegate.domain.wire import REASON_HEADER


class Reason(StrEnum):
    """Why a request is not served; the value of the header `x-tidegate-reason`."""

    INVALID_JSON = "invalid-json"
    MODEL_REQUIRED = "model-required"
    INVALID_REQUEST = "invalid-request"
    MODEL_NOT_FOUND = "model-not-found"
    BODY_TOO_LARGE = "body-too-large"
    UNSUPPORTED_ENCODING = "unsupported-encoding"
    SATURATED = "saturated"
    HELD = "held"
    QUEUE_TIMEOUT = "queue-timeout"
    NO_ENDPOINT = "no-endpoint"


@dataclass(frozen=True, slots=True)
class HttpShape:
    """Status, and the `type` and `code` of the OpenAI error object."""

    status: int
    type: str
    code: str


_BAD: Final = "invalid_request_error"
_BUSY: Final = HttpShape(429, "rate_limit_error", "rate_limit_exceeded")

SHAPES: Final[dict[Reason, HttpShape]] = {
    Reason.INVALID_JSON: HttpShape(400, _BAD, "invalid_json"),
    Reason.MODEL_REQUIRED: HttpShape(400, _BAD, "missing_required_parameter"),
    Reason.INVALID_REQUEST: HttpShape(400, _BAD, "invalid_value"),
    Reason.MODEL_NOT_FOUND: HttpShape(404, _BAD, "model_not_found"),
    Reason.BODY_TOO_LARGE: HttpShape(413, _BAD, "request_too_large"),
    Reason.UNSUPPORTED_ENCODING: HttpShape(415, _BAD, "unsupported_encoding"),
    Reason.SATURATED: _BUSY,
    Reason.HELD: _BUSY,
    Reason.QUEUE_TIMEOUT: _BUSY,
    Reason.NO_ENDPOINT: HttpShape(503, "server_error", "service_unavailable"),
}


ANTHROPIC_TYPES: Final[Mapping[int, str]] = {
    400: _BAD,
    404: "not_found_error",
    405: _BAD,
    413: "request_too_large",
    415: _BAD,
    429: "rate_limit_error",
    503: "api_error",
}
"""`error.type` of Anthropic by status. 503 says that no replica is there, which is not its `overloaded_error`."""


class Dialect(StrEnum):
    """Whose error object a client understands."""

    OPENAI = "openai"
    ANTHROPIC = "anthropic"


MESSAGES_PATH: Final = r"(?:/+(?:anthropic|api|v1))*/+messages(?:/[^?]*)?"
"""Anthropic's paths, without a query; the syntax is RE2's too, since Envoy matches by it."""

_messages_path: Final = re.compile(MESSAGES_PATH).fullmatch


def dialect_of(path: str | None) -> Dialect:
    """By the path of a request, with or without its query; OpenAI's when it is unknown."""
    known = path is not None and _messages_path(path.partition("?")[0])
    return Dialect.ANTHROPIC if known else Dialect.OPENAI


class Refusal(TidegateError):  # noqa: N818 - the noun of the contract
    """A request that is answered instead of served.

    The text is shown to the client: one sentence, without control characters or lone surrogates. `param` names
    the field of the body at fault; `retry_after_seconds` is a whole number of seconds, at least 1; `headers` are
    further response headers, in ASCII.
    """

    def __init__(
        self,
        reason: Reason,
        message: str,
        *,
        param: str | None = None,
        retry_after_seconds: int | None = None,
        headers: tuple[tuple[str, str], ...] = (),
    ) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.param = param
        self.retry_after_seconds = retry_after_seconds
        self.headers = headers


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """An HTTP response that the gateway gives itself."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes


def error_body(shape: HttpShape, message: str, dialect: Dialect, param: str | None = None) -> bytes:
    """The JSON of an error."""
    body: Mapping[str, Any]
    if dialect is Dialect.ANTHROPIC:
        body = {"type": "error", "error": {"type": ANTHROPIC_TYPES[shape.status], "message": message}}
    else:
        body = {"error": {"message": message, "type": shape.type, "param": param, "code": shape.code}}
    return msgspec.json.encode(body)


def http_answer(refusal: Refusal, dialect: Dialect = Dialect.OPENAI) -> HttpAnswer:
    """The status, headers and JSON body that a client of that dialect gets for `refusal`."""
    shape = SHAPES[refusal.reason]
    headers = [("content-type", "application/json"), (REASON_HEADER, refusal.reason.value), *refusal.headers]
    if refusal.retry_after_seconds is not None:
        headers.append(("retry-after", str(refusal.retry_after_seconds)))
    return HttpAnswer(shape.status, tuple(headers), error_body(shape, refusal.message, dialect, refusal.param))
