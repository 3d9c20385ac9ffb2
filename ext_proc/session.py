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

from ext_proc.buffered import Attributes, Beside, Pieces, Reader
from ext_proc.flow.later import Reply
from ext_proc.responses import EMPTY_REPLIES
from tidegate.domain.errors import ProtocolViolation

DecideRequest = Callable[[bytes, Attributes], Reply]
"""Body and attributes of a request in, a serialised ProcessingResponse out, perhaps later. Raises nothing on any
input."""

_WHOLE_BODY: Final = (ProcessingMode.NONE, ProcessingMode.BUFFERED)  # NONE: the message does not tell


class Session:
    """State of one stream: which HTTP request it belongs to, and whether it was decided. One task uses it.

    `reader` may be that of many sessions.
    """

    __slots__ = ("_beside", "_decide", "_decided", "_reader")

    def __init__(self, decide: DecideRequest, reader: Reader | None = None) -> None:
        self._decide, self._reader = decide, reader or Reader()
        self._beside: Beside | None = None
        self._decided = False

    def handle(self, data: bytes | Pieces) -> Reply:
        """Answer one message, whole or in pieces, a list that is empty afterwards: a body is let go once it is read.

        Raises ProtocolViolation when Envoy speaks otherwise than configured.
        """
        pieces: Pieces = [data] if isinstance(data, bytes) else data
        found = self._reader.read(pieces)
        message = _parse(b"".join(pieces)) if found is None else None
        pieces.clear()
        if found is not None:
            return self._body(*found)
        assert message is not None
        kind = message.WhichOneof("request")
        if kind == "request_body":
            return self._body(message.request_body.body, Beside(message))
        if self._beside is None:
            self._beside = Beside(message)
        reply = EMPTY_REPLIES.get(kind)
        if reply is None:
            raise ProtocolViolation(f"ext_proc message without a known request: {kind}")
        return reply

    def _body(self, body: bytes, beside: Beside) -> Reply:
        if self._decided:
            raise ProtocolViolation("a second request body on one ext_proc stream; the mode must be BUFFERED")
        first = beside if self._beside is None else self._beside
        if first.mode not in _WHOLE_BODY:
            raise ProtocolViolation(f"request_body_mode {first.mode} sends bodies in parts; it must be BUFFERED")
        self._decided, self._beside = True, None
        return self._decide(body, first.attributes)


def _parse(data: bytes) -> pb.ProcessingRequest:
    try:
        return pb.ProcessingRequest.FromString(data)
    except DecodeError as exc:
        raise ProtocolViolation(f"not a ProcessingRequest: {exc}") from exc
