"""Whose turn it is among equals."""

from __future__ import annotations

from typing import Final

_GOLDEN: Final = 0.6180339887498949


class Turns:
    """Equals take turns evenly, whichever places they have and whatever is asked in between.

    The n-th tie goes to the place ⌊frac(n · golden ratio) · equals⌋: any regular part of that sequence, such as every
    second tie, is spread as evenly as the whole, which a plain counter's remainder is not.
    """

    def __init__(self) -> None:
        self._at = 0.0

    def least(self, totals: list[float], tolerance: float) -> int:
        """The place of the least total; one of those within `tolerance` of it."""
        least = min(totals)
        bound = least + tolerance
        equals = [at for at, total in enumerate(totals) if total <= bound]
        if len(equals) == 1:
            return equals[0]
        self._at = (self._at + _GOLDEN) % 1.0
        return equals[int(self._at * len(equals))]
