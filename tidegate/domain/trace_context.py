"""Where in a trace a request is: the header `traceparent` of W3C Trace Context.

00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01
version   trace id, 16 bytes        span id, 8    flags: 1 is sampled
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

TRACEPARENT_HEADER: Final = "traceparent"

_VERSION_00: Final = re.compile(r"00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")
_SAMPLED: Final = 1


@dataclass(frozen=True, slots=True)
class TraceContext:
    """A span that others may be children of. Ids are above 0, of 128 and 64 bits."""

    trace_id: int
    span_id: int
    sampled: bool = True

    @property
    def trace_hex(self) -> str:
        """The trace's id as headers, logs and exemplars show it: 32 digits."""
        return f"{self.trace_id:032x}"

    @property
    def traceparent(self) -> str:
        """The header of a request that this span sends."""
        return f"00-{self.trace_id:032x}-{self.span_id:016x}-{self.sampled:02x}"


def read_traceparent(text: str) -> TraceContext | None:
    """The context that a header names; None when it is malformed, or of a version that is not known."""
    found = _VERSION_00.fullmatch(text)
    if found is None:
        return None
    trace_id, span_id = int(found[1], 16), int(found[2], 16)
    if not trace_id or not span_id:
        return None
    return TraceContext(trace_id, span_id, bool(int(found[3], 16) & _SAMPLED))
