"""Some of the picks, in the log."""

from __future__ import annotations

from typing import Any, Protocol

from ext_proc.flow.arrival import Placed
from ext_proc.flow.explain import fields


class Logger(Protocol):
    """Where it is said."""

    def info(self, event: str, **fields: Any) -> object:
        """One line."""


class PickLog:
    """Every n-th pick, so that `ratio` of them, 0…1, are logged. Belongs to the event loop."""

    def __init__(self, log: Logger, ratio: float) -> None:
        self._log, self._ratio, self._due = log, ratio, 0.0

    def picked(self, cluster: str, placed: Placed) -> None:
        """A request was placed."""
        self._due += self._ratio
        if self._due >= 1:
            self._due -= 1
            self._log.info("picked", cluster=cluster, **fields(placed.pick, placed.waited_ms))
