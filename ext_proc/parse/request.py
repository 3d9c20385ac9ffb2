"""The one entry: path, headers and body of a request in, what it asks for out."""

from __future__ import annotations

from ext_proc.parse.body import parse_body
from tidegate.domain.refusal import Reason, Refusal
from tidegate.domain.request import RequestInfo


def parse_request(
    body: bytes, *, path: str, content_type: str | None, content_encoding: str | None, max_bytes: int
) -> RequestInfo:
    """Read `body`. Raises Refusal and nothing else."""
    if len(body) > max_bytes:
        message = f"The body has {len(body)} bytes; at most {max_bytes} are accepted."
        raise Refusal(Reason.BODY_TOO_LARGE, message)
    if content_encoding is not None and content_encoding.strip().lower() not in {"", "identity"}:
        message = "The content-encoding of the body is not supported; send it unencoded."
        raise Refusal(Reason.UNSUPPORTED_ENCODING, message)
    del path, content_type
    return parse_body(body)
