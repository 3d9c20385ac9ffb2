"""What a scenario owes the driver."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from bench.upstream import Upstream


@dataclass(frozen=True, slots=True)
class Target:
    """Where the load goes, and whose CPU is counted: process name → pids."""

    url: str
    pids: Mapping[str, Sequence[int]] = field(default_factory=dict)


class Scenario(Protocol):
    """One way from the client to the engines."""

    name: str
    about: str

    def target(self, upstream: Upstream, folder: Path) -> AbstractContextManager[Target]:
        """Start what stands between client and `upstream`, with files in `folder`; end it at exit.

        Raises RuntimeError with the end of a log when something does not start.
        """
