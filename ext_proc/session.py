"""One ext_proc stream, sans-I/O: bytes of a ProcessingRequest in, bytes of a ProcessingResponse out.

    Envoy                               session
      request_body (BUFFERED)  ───▶     decide
                               ◀───     BodyResponse + metadata, or ImmediateResponse;
                                        or first a call for more time, and that later
      any other kind           ───▶
                               ◀───     the empty answer of that kind

Envoy is configured to send the one body message alone. Header and trailer messages of another configuration are
let through untouched.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from envoy.extensions.filters.http.ext_proc.v3.processing_mode_pb2 import ProcessingMode
from envoy.service.ext_proc.v3 import external_processor_pb2 as pb
from google.protobuf.message import DecodeError

from ext_proc.flow.later import Reply
from ext_proc.responses import EMPTY_REPLIES
from tidegate.domain.errors import ProtocolViolation
from tidegate.domain.wire import header_attribute

DecideRequest = Callable[[bytes, "Attributes"], Reply]
"""Body and attributes of a request in, a serialised ProcessingResponse out, perhaps later. Raises nothing on any
input."""

_FILTER: Final = "envoy.filters.http.ext_proc"
_WHOLE_BODY: Final = (ProcessingMode.NONE, ProcessingMode.BUFFERED)  # NONE: the message does not tell


class Attributes:
    """The CEL attributes of a stream's first message."""

    __slots__ = ("_fields",)

    def __init__(self, message: pb.ProcessingRequest) -> None:
        sent = message.attributes
        self._fields = sent[_FILTER].fields if _FILTER in sent else {}

    def get(self, name: str) -> str | None:
        """The text of one attribute, such as `request.path`; None when Envoy did not send it."""
        return str(self._fields[name].string_value) if name in self._fields else None

    def header(self, name: str) -> str | None:
        """The value of a header by its lower-case name; of one sent more than once, all values, joined by commas.

        None when the client did not send it, or when the listener does not ask for it.
        """
        return self.get(header_attribute(name))


class Session:
    """State of one stream: which HTTP request it belongs to, and whether it was decided. One task uses it."""

    __slots__ = ("_decide", "_decided", "_first")

    def __init__(self, decide: DecideRequest) -> None:
        self._decide = decide
        self._first: pb.ProcessingRequest | None = None
        self._decided = False

    def handle(self, data: bytes) -> Reply:
        """Answer one message. Raises ProtocolViolation when Envoy speaks otherwise than configured."""
        message = _parse(data)
        kind = message.WhichOneof("request")
        if kind == "request_body":
            return self._body(message)
        if self._first is None:
            self._first = message
        reply = EMPTY_REPLIES.get(kind)
        if reply is None:
            raise ProtocolViolation(f"ext_proc message without a known request: {kind}")
        return reply

    def _body(self, message: pb.ProcessingRequest) -> Reply:
        if self._decided:
            raise ProtocolViolation("a second request body on one ext_proc stream; the mode must be BUFFERED")
        first = message if self._first is None else self._first
        mode = first.protocol_config.request_body_mode
        if mode not in _WHOLE_BODY:
            raise ProtocolViolation(f"request_body_mode {mode} sends bodies in parts; it must be BUFFERED")
        self._decided, self._first = True, None
        return self._decide(message.request_body.body, Attributes(first))


def _parse(data: bytes) -> pb.ProcessingRequest:
    try:
        return pb.ProcessingRequest.FromString(data)
    except DecodeError as exc:
        raise ProtocolViolation(f"not a ProcessingRequest: {exc}") from exc
