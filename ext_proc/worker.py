"""One of several processes of ext_proc: `python -m ext_proc.worker`, started by `workers` and by nobody else.

What it is told comes as one JSON document on its standard input; once it serves, it answers with one line on its
standard output: its addresses.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from tidegate.domain.errors import ConfigError
from tidegate.runtime import run
from tidegate.settings.services import ExtProcSettings

USAGE_ERROR: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOrder:
    """What a worker is told: its number from 1 on, `host:port` of its own beside the one that all share, settings."""

    number: int
    own_listen: str
    settings: ExtProcSettings

    def encode(self) -> bytes:
        """As JSON."""
        return msgspec.json.encode(self, enc_hook=str)

    @classmethod
    def decode(cls, data: bytes) -> WorkerOrder:
        """What `encode` gave."""
        return msgspec.json.decode(data, type=cls, dec_hook=_path)


def _path(kind: type, value: Any) -> Any:
    if kind is Path:
        return Path(value)
    raise NotImplementedError(kind)


def say_ready(addresses: dict[str, str | None]) -> None:
    """Tell the parent where this worker is found: `metrics`, `listen`, `own`."""
    sys.stdout.buffer.write(msgspec.json.encode(addresses) + b"\n")
    sys.stdout.flush()


def main() -> None:
    """Serve until SIGTERM. Exit 2: what it was told cannot be."""
    from ext_proc.app import serve  # noqa: PLC0415 - app starts workers

    order = WorkerOrder.decode(sys.stdin.buffer.read())
    try:
        run(lambda: serve(order.settings, order))
    except ConfigError as exc:
        print(exc, file=sys.stderr)  # noqa: T201 - the operator's terminal
        sys.exit(USAGE_ERROR)


if __name__ == "__main__":
    main()
