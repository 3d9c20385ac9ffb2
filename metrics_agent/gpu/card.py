"""One card, or one MIG device, while it is asked: each field on its own, nothing twice that it does not support."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any, TypeVar

from metrics_agent.gpu.errors import NO_PERMISSION, UNSUPPORTED, CardError, DriverError, GpuError
from metrics_agent.gpu.port import GpuFields

Answer = TypeVar("Answer")

# (UUID, whether MIG is on, question): MIG changes what a card supports.
Unsupported = set[tuple[str, bool, str]]


@dataclass(slots=True)
class Card:
    """`key` is the UUID, or `index-N` where the card does not tell one. `refusals` are kinds of GpuError, in order.

    `hides_mig` is whether it refuses to say that it is cut into MIG devices.
    """

    key: str
    handle: Any
    unsupported: Unsupported
    mig: bool = False
    hides_mig: bool = False
    refusals: list[str] = field(default_factory=list)
    answered: bool = False

    def identity(self, what: str, question: Callable[[Any], Answer]) -> Answer | None:
        """Like `value`, for a question that even a card in trouble answers: it says nothing about health."""
        answered = self.answered
        answer = self.value(what, question)
        self.answered = answered
        return answer

    def value(
        self, what: str, question: Callable[[Any], Answer], unsupported: AbstractSet[str] = UNSUPPORTED
    ) -> Answer | None:
        """The answer, or None. Errors of the kinds `unsupported` end the asking; CardError and DriverError pass."""
        memo = (self.key, self.mig, what)
        if memo in self.unsupported:
            return None
        try:
            answer = question(self.handle)
        except (CardError, DriverError):
            raise
        except GpuError as exc:
            if exc.kind in unsupported:
                self.unsupported.add(memo)
            else:
                self.refusals.append(exc.kind)
            return None
        self.answered = True
        return answer

    def refuses(self, what: str) -> None:
        """Ask for `what` no more, as if the card did not support it."""
        self.unsupported.add((self.key, self.mig, what))

    def lacks(self, what: str) -> bool:
        """Whether the card has said that it does not support `what`."""
        return (self.key, self.mig, what) in self.unsupported

    def health(self) -> GpuFields:
        """`healthy` and `reason`. A card that may not be asked is neither healthy nor unhealthy."""
        if NO_PERMISSION in self.refusals:
            return {"healthy": True, "reason": NO_PERMISSION} if self.answered else {"reason": NO_PERMISSION}
        if self.refusals and not self.answered:
            return {"healthy": False, "reason": self.refusals[0]}
        return {"healthy": True}
