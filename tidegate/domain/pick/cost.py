"""The default policy: expected seconds, a sum of terms that each say what they mean."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tidegate.domain.pick.situation import Situation
from tidegate.domain.pick.terms.adapter import adapter
from tidegate.domain.pick.terms.decode import decode
from tidegate.domain.pick.terms.interference import interference
from tidegate.domain.pick.terms.prefill import prefill
from tidegate.domain.pick.terms.ramp import ramp
from tidegate.domain.pick.terms.room import room
from tidegate.domain.pick.terms.session import session
from tidegate.domain.pick.terms.wait import wait

WAIT: Final = "wait"
ROOM: Final = "room"
PREFILL: Final = "prefill"

Term = Callable[[Situation], "list[float] | None"]

TERMS: Final[tuple[tuple[str, Term], ...]] = (
    (WAIT, wait),
    (ROOM, room),
    (PREFILL, prefill),
    ("adapter", adapter),
    ("ramp", ramp),
    ("session", session),
    ("interference", interference),
    ("decode", decode),
)


def cost(situation: Situation) -> dict[str, list[float]]:
    """Seconds of each term that has a say, along the situation's replicas."""
    return {name: seconds for name, term in TERMS if (seconds := term(situation)) is not None}
