"""Errors as vLLM writes them.

ApiError
├── bad_request     400  BadRequestError
├── unknown_model   404  NotFoundError
└── unavailable     503  ServiceUnavailableError
"""

from __future__ import annotations

from typing import Any

import msgspec
from aiohttp import web


class ApiError(Exception):
    """An answer that is not 200. `kind` and `param` are fields of the error body."""

    def __init__(self, status: int, kind: str, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.status, self.kind, self.param = status, kind, param


def bad_request(message: str, param: str | None = None) -> ApiError:
    """The body is not acceptable."""
    return ApiError(400, "BadRequestError", message, param)


def unknown_model(model: str) -> ApiError:
    """No such model here."""
    return ApiError(404, "NotFoundError", f"The model `{model}` does not exist.", "model")


def error_response(error: ApiError) -> web.Response:
    """The one mapping of an ApiError to HTTP."""
    body = {"message": str(error), "type": error.kind, "param": error.param, "code": error.status}
    return json_response({"error": body}, error.status)


def json_response(payload: Any, status: int = 200) -> web.Response:
    """A JSON answer."""
    return web.Response(body=msgspec.json.encode(payload), status=status, content_type="application/json")
