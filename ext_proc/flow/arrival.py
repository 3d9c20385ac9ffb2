"""A request between the moment in which it was read and its answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

import msgspec

from tidegate.domain.flow.waiting import Waiting
from tidegate.domain.pick.verdict import Pick
from tidegate.domain.pick.work import Work
from tidegate.domain.refusal import Refusal


class Placed(msgspec.Struct, frozen=True):
    """The request goes to its cluster: to the replicas of `pick`, or where Envoy's weights say. It waited so long."""

    pick: Pick
    waited_ms: int = 0


Answer = Callable[[Placed | Refusal], bytes]
"""Writes the ProcessingResponse of an outcome. Called once. Refuses instead of raising a Refusal."""


class Watch(Protocol):
    """Is told what happens to one request beside its answer."""

    def picking(self) -> None:
        """A replica is looked for."""

    def gone(self) -> None:
        """Its client hung up."""


class Arrival(Waiting, eq=False, kw_only=True):
    """`reply` is the answer once it is known; `later` is where it goes if somebody already waits for it.

    `trace_id` is that of the request's trace where that is sampled, 32 hexadecimal digits: the exemplar of its wait.
    """

    work: Work
    answer: Answer
    trace_id: str | None = None
    watch: Watch | None = None
    reply: bytes | None = None
    later: asyncio.Future[bytes] | None = None

    @property
    def gone(self) -> bool:
        """Its client hung up."""
        return self.later is not None and self.later.cancelled()

    def settle(self, outcome: Placed | Refusal) -> None:
        """Answer. A fault in writing the answer reaches whoever waits for it and nobody else."""
        if self.later is None:
            self.reply = self.answer(outcome)
        elif not self.later.done():
            try:
                self.later.set_result(self.answer(outcome))
            except Exception as exc:  # noqa: BLE001 - it is raised again where the answer is awaited
                self.later.set_exception(exc)
