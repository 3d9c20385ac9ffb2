"""Load generators: wrk where it is installed, a slower one of our own elsewhere."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What a generator saw: `requests` answered in `seconds`; `errors` are answers that are not 2xx, broken
    connections and timeouts."""

    requests: int
    seconds: float
    p50_ms: float
    p99_ms: float
    errors: int


class Generator(Protocol):
    """Sends one body over and over."""

    name: str
    remark: str

    def run(self, url: str, body: Path, connections: int, seconds: float) -> Load:
        """POST the file `body` to `url` on so many keep-alive connections, each with one request under way.

        The files of a folder take turns.
        """


def files_of(body: Path) -> list[Path]:
    """The file, or the files of the folder in the order of their names."""
    return sorted(body.iterdir()) if body.is_dir() else [body]


def generator() -> Generator:
    """wrk when it is on PATH, else the asyncio one."""
    from bench.load.asyncio_client import AsyncioClient  # noqa: PLC0415 - only one of the two is used
    from bench.load.wrk import Wrk  # noqa: PLC0415

    return Wrk() if shutil.which("wrk") else AsyncioClient()
