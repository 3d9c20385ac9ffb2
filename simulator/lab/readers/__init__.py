"""Trace files, one format a file. `read` finds out which one it is; each reader says file and line of a fault."""

from __future__ import annotations

import gzip
from pathlib import Path

from simulator.lab.readers import azure, mooncake
from simulator.lab.trace import Trace, trace_of
from tidegate.domain.errors import ConfigError


def read(path: Path) -> Trace:
    """Read a trace, gzip or plain, in Azure's CSV or Mooncake's JSONL. Raises ConfigError with file and line."""
    lines = _lines(path)
    first = next((line.strip() for line in lines if line.strip()), "")
    if first.startswith("{"):
        requests = mooncake.parse(lines, str(path))
    elif azure.is_header(first):
        requests = azure.parse(lines, str(path))
    else:
        raise ConfigError([f"{path}:1: neither {azure.HEADER} (Azure) nor a JSON object a line (Mooncake)"])
    if len(requests) < 2:
        raise ConfigError([f"{path}: {len(requests)} requests; a trace has at least 2"])
    return trace_of(path.name, requests)


def _lines(path: Path) -> list[str]:
    try:
        data = path.read_bytes()
        return (gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data).decode().splitlines()
    except (OSError, EOFError, UnicodeDecodeError) as exc:
        raise ConfigError([f"{path}: cannot be read: {exc}"]) from exc
