"""Some of the decisions, in the log: one line each."""

from __future__ import annotations

from typing import Any, Protocol


class Logger(Protocol):
    """Where it is said."""

    def info(self, event: str, **fields: Any) -> object:
        """One line."""


class DecisionLog:
    """Every n-th decision, so that `ratio` of them, 0…1, are logged. Belongs to the event loop."""

    def __init__(self, log: Logger, ratio: float) -> None:
        self._log, self._ratio, self._due = log, ratio, 0.0

    def due(self) -> bool:
        """Whether the decision that was just made is one of them. Called once for each."""
        self._due += self._ratio
        if self._due < 1:
            return False
        self._due -= 1
        return True

    def say(self, event: str, **fields: Any) -> None:
        """The line, where one is due."""
        self._log.info(event, **fields)
