"""How fast a weight may change: a replica that begins to serve gets a little first, and nothing jumps but to zero."""

from __future__ import annotations

from typing import Final

FIRST_PART: Final = 0.1
"""What a replica that begins to serve gets of its share: enough to be measured, too little to hurt."""


def ramp_part(seconds: float | None, ramp_seconds: float) -> float:
    """The part of its share that a replica gets `seconds` after it began to serve: 0.1 at first, rising evenly to 1.

    None is a replica that needs no ramp. Range 0.1…1; a ramp of 0 s is none.
    """
    if seconds is None or seconds >= ramp_seconds:
        return 1.0
    return FIRST_PART + (1.0 - FIRST_PART) * max(0.0, seconds) / ramp_seconds


def limited(last: float, wanted: float, seconds: float, most_step: float) -> float:
    """`wanted`, brought to within a factor `most_step` (≥ 1) a second of `last`. Zero is reached, and left, at once.

    Between two values above 0 the ratio of the result to `last` lies in most_step^∓seconds.
    """
    if last <= 0 or wanted <= 0:
        return max(0.0, wanted)
    factor = most_step ** max(0.0, seconds)
    return float(min(last * factor, max(last / factor, wanted)))
