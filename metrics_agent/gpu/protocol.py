"""What the worker process tells the agent: one line of JSON a message.

`{"nvml": "ok", "gpus": {…}, "read_at_ms": 1767225600000, "quiet_seconds": 0.1}`
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import msgspec

from metrics_agent.gpu.port import GpuFields, NvmlState


@dataclass(frozen=True, slots=True)
class Message:
    """`quiet_seconds` is how long the worker means to say nothing: silence past it is a call that hangs."""

    nvml: NvmlState
    gpus: dict[str, GpuFields] = field(default_factory=dict)
    read_at_ms: int = 0
    quiet_seconds: float = 0.0


_decoder: Final = msgspec.json.Decoder(Message)


def encode(message: Message) -> bytes:
    """The line, with its end."""
    return msgspec.json.encode(message) + b"\n"


def decode(line: bytes) -> Message | None:
    """The message, or None for a line that is none."""
    try:
        return _decoder.decode(line)
    except (msgspec.DecodeError, UnicodeError):
        return None
