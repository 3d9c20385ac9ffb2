"""Which state an engine is in, from what its pages and failures say. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from metrics_agent.scrape.reading import Reading
from tidegate.domain.sample import Status

FAILURES_UNTIL_UNREACHABLE: Final = 2


class Failure(StrEnum):
    """Why a scrape failed."""

    REFUSED = "refused"
    TIMEOUT = "timeout"
    BROKEN = "broken"
    STATUS = "status"
    TOO_LARGE = "too_large"
    UNREADABLE = "unreadable"  # reading the page raised: a defect of the agent's


@dataclass(frozen=True, slots=True)
class Life:
    """What is known of one engine. It starts as loading.

    `healthy`: its health page answered 200 last time, None when it has none; `paged`: its metrics page was read
    since it was reachable; `shown`: that page showed an engine.
    """

    healthy: bool | None = False
    paged: bool = False
    shown: bool = False
    gone: bool = False
    failures: int = 0

    def after_health(self, ok: bool | None) -> Life:
        """The health page answered; None: there is none."""
        return replace(self, healthy=ok)

    def after_page(self, *, shows_engine: bool = True) -> Life:
        """The metrics page was read, whatever it said."""
        return replace(self, paged=True, shown=shows_engine, gone=False, failures=0)

    def after_failure(self, why: Failure) -> Life:
        """A refused connection means that nobody listens; anything else may pass and counts from the second on."""
        failures = self.failures + 1
        if why is Failure.REFUSED or failures >= FAILURES_UNTIL_UNREACHABLE:
            return Life(gone=True, failures=failures)
        return replace(self, failures=failures)

    def status(self, reading: Reading) -> Status:
        """The state, given the newest reading. An engine that tells no queue is ready, not idle.

        Without a health page, metrics of an engine say that it serves.
        """
        if self.gone:
            return Status.UNREACHABLE
        healthy = self.shown if self.healthy is None else self.healthy
        if not (healthy and self.paged):
            return Status.LOADING
        if reading.awake is False:
            return Status.ASLEEP
        return Status.IDLE if reading.running == 0 and reading.waiting == 0 else Status.READY
