"""Which request a log line is about: its id and its trace, never what it says."""

from __future__ import annotations

import contextlib
import traceback
from typing import Any, Final

from ext_proc.buffered import Attributes
from ext_proc.spans import RequestSpans
from tidegate.domain.wire import REQUEST_ID_ATTRIBUTE

_LONGEST_ID: Final = 128
_NOTE: Final = "tidegate_request"


def about(attributes: Attributes, spans: RequestSpans | None) -> dict[str, str]:
    """`request_id`, where Envoy was told to send it (`--request-ids`), and `trace_id` of a sampled trace."""
    request_id = attributes.get(REQUEST_ID_ATTRIBUTE)
    ids = {"request_id": request_id and request_id[:_LONGEST_ID], "trace_id": spans and spans.trace_id}
    return {name: value for name, value in ids.items() if value}


def note(exc: BaseException, attributes: Attributes, spans: RequestSpans | None) -> None:
    """Remember with a fault which request met it."""
    with contextlib.suppress(AttributeError):  # of the few exceptions that take no attributes
        setattr(exc, _NOTE, about(attributes, spans))


def fault_fields(exc: BaseException) -> dict[str, Any]:
    """A fault for the log: its kind, where it happened and in which request.

    What it says is left out: an exception's text may repeat what a client sent.
    """
    frames = "".join(traceback.format_tb(exc.__traceback__))
    return {"error": type(exc).__name__, "exception": frames, **getattr(exc, _NOTE, {})}
