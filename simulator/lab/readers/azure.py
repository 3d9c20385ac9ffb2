"""Azure's LLM inference traces: TIMESTAMP,ContextTokens,GeneratedTokens. They tell nothing of prefixes."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from simulator.lab.trace import TraceRequest
from tidegate.domain.errors import ConfigError

HEADER: Final = "TIMESTAMP,ContextTokens,GeneratedTokens"


def is_header(line: str) -> bool:
    """Whether a file that begins with `line` is of this format; columns after the three are left alone."""
    return line.lower().replace(" ", "").removeprefix("\ufeff").startswith(HEADER.lower())


def parse(lines: Sequence[str], name: str) -> list[TraceRequest]:
    """The requests of a file, seconds as Unix time (naive stamps read as UTC). Raises ConfigError with the line."""
    requests = []
    for number, row in enumerate(csv.reader(lines), start=1):
        if number == 1 or not row:
            continue
        try:
            requests.append(_request(row))
        except (ValueError, IndexError) as exc:
            raise ConfigError([f"{name}:{number}: {','.join(row)!r} is no request: {exc}"]) from exc
    return requests


def _request(row: Sequence[str]) -> TraceRequest:
    stamp = datetime.fromisoformat(row[0].strip())
    at = stamp if stamp.tzinfo else stamp.replace(tzinfo=UTC)
    prompt, output = int(row[1]), int(row[2])
    if prompt < 0 or output < 0:
        raise ValueError("tokens start at 0")
    return TraceRequest(at.timestamp(), max(1, prompt), max(1, output))
