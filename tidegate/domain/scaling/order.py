"""An operator's number of replicas: the tunable `scale.replicas`, as `auto`, `3`, `3 for 1h` or `3 until …`.

It is a tunable, so that what holds for those holds for it: it is checked, restored, explained and told in the audit
log. Its lifetime is that of pins and drains (tidegate.domain.lifetime).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from tidegate.domain.lifetime import Timed, read_timed
from tidegate.domain.tunable import Tunable

AUTO: Final = "auto"
MOST: Final = 100_000
_NUMBER: Final = re.compile(r"[0-9]{1,6}")
_SHOWN_CHARACTERS: Final = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Order(Tunable):
    """A whole number that may have an end, or `auto`. The value is the text, which `ordered` reads."""

    def read(self, text: str) -> str:
        """The text. Raises ValueError with half a sentence that says what would be right."""
        rest = read_timed(text, 0).rest
        if rest != AUTO and not (_NUMBER.fullmatch(rest) and int(rest) <= MOST):
            said = text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "…"
            raise ValueError(f"{said!r} is not {self.range}")
        return text

    @property
    def range(self) -> str:
        """What a value may be."""
        return f"auto or a whole number up to {MOST}, with an end such as `for 1h` if you like"


ORDER: Final = Order(
    name="scale.replicas",
    default=AUTO,
    doc="how many replicas an operator wants, whatever the load and the bounds; auto leaves it to them",
)


def ordered(text: str, now_ms: int) -> tuple[int | None, Timed]:
    """The number in force at `now_ms` (None: it is `auto`, or its time is over), and the text with its end."""
    timed = read_timed(text, now_ms)
    over = timed.is_over(now_ms) or timed.rest == AUTO
    return (None if over else int(timed.rest)), timed
