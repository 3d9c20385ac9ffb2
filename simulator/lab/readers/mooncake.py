"""Mooncake's traces: one JSON object a line with timestamp (ms), input_length, output_length and hash_ids."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from simulator.lab.trace import BLOCK_TOKENS, TraceRequest
from tidegate.domain.errors import ConfigError


class _Line(msgspec.Struct):
    timestamp: float
    input_length: int
    output_length: int
    hash_ids: tuple[int, ...] = ()


_DECODER = msgspec.json.Decoder(_Line)


def parse(lines: Sequence[str], name: str) -> list[TraceRequest]:
    """The requests of a file; ids beyond the prompt's length are left out. Raises ConfigError with the line."""
    requests = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            requests.append(_request(_DECODER.decode(line)))
        except (msgspec.MsgspecError, ValueError) as exc:
            raise ConfigError([f"{name}:{number}: {line[:80]!r} is no request: {exc}"]) from exc
    return requests


def _request(line: _Line) -> TraceRequest:
    if line.input_length < 0 or line.output_length < 0:
        raise ValueError("lengths start at 0")
    prompt = max(1, line.input_length)
    blocks = line.hash_ids[: -(-prompt // BLOCK_TOKENS)]
    return TraceRequest(line.timestamp / 1000, prompt, max(1, line.output_length), blocks)
